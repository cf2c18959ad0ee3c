// The revealed payload: shown only in the place where it was requested.
document.addEventListener("acted", (event) => {
  const place = document.getElementById(event.target.dataset?.reveals ?? "");
  if (!place) return;
  place.querySelector("pre").textContent = JSON.stringify(event.detail.payload, null, 2);
  place.hidden = false;
  event.target.reset();
  place.querySelector("button").focus();
});

document.addEventListener("click", (event) => {
  const place = document.getElementById(event.target.closest("[data-hide]")?.dataset.hide ?? "");
  if (!place) return;
  place.querySelector("pre").textContent = "";
  place.hidden = true;
});
