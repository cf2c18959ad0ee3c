// Hides the demo's guide until the browser is closed.
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-guide-hide]")) return;
  document.cookie = "redrive_guide=hidden; Path=/app; SameSite=Lax";
  document.getElementById("guide")?.remove();
  document.getElementById("main")?.focus({ preventScroll: true });
});
