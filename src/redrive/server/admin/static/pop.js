// Pop-ups close when the user leaves them, and focus their first field when they open.
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details[data-pop]") && event.target.open) {
    for (const other of document.querySelectorAll("details[data-pop][open]")) if (other !== event.target && !other.contains(event.target)) other.open = false;
    enter(event.target);
  }
}, true);

// The toggle event comes too late for keyboard users: what they type next must go into the field, not trigger shortcuts.
export function enter(details) {
  if (details.contains(document.activeElement?.closest(".pop"))) return;
  details.querySelector(".pop input:not([type=hidden]), .pop select, .pop textarea, .pop button")?.focus();
}

document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details[data-pop][open]")) if (!open.contains(event.target)) open.open = false;
});

document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && [...document.querySelectorAll("details[data-pop][open]")].at(-1);
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});
