// Keyboard shortcuts: j and k move through rows, a control with data-key is clicked by that key, g and a letter open a page.
import { isOpening } from "./dialog.js";
import { enter } from "./pop.js";
import { undo } from "./undo.js";

let going = 0;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isOpening()) return event.preventDefault();
  if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) {
    if (event.key === "Escape" && event.target.matches("[data-search]")) event.target.blur();
    return;
  }
  const dialog = document.querySelector("#dialog")?.open;
  if (handled(event.key, dialog)) event.preventDefault();
});

function handled(key, dialog) {
  if (going && Date.now() - going < 1500 && !dialog) {
    going = 0;
    return clicked(document.querySelector(`[data-go="${CSS.escape(key)}"]`));
  }
  if (dialog) return clicked(usable(document.querySelector("#dialog"), key));
  switch (key) {
    case "g": going = Date.now(); return true;
    case "j": case "ArrowDown": return moved(1, key);
    case "k": case "ArrowUp": return moved(-1, key);
    case "Enter": return document.activeElement?.matches("[data-row]") && opened();
    case "o": return opened();
    case "x": return clicked(row()?.querySelector("input[type=checkbox]"));
    case "u": undo(); return true;
    case "/": return focused(document.querySelector("[data-search]"));
    default: return clicked(ofSelection(key) ?? (row() ? usable(row(), key) : undefined) ?? usable(document, key));
  }
}

const rows = () => [...document.querySelectorAll("[data-row]")];
const row = () => document.activeElement?.closest?.("[data-row]");
const opened = () => clicked(row()?.querySelector("[data-open]"));

function moved(by, key) {
  const all = rows();
  if (!all.length || (key.startsWith("Arrow") && !row())) return false;
  const next = all[Math.min(Math.max(all.indexOf(row()) + by, 0), all.length - 1)] ?? all[0];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
}

// While rows are selected, keys act on the selection.
function ofSelection(key) {
  return [...document.querySelectorAll("[data-bulk]:not([hidden])")].map((bar) => usable(bar, key)).find(Boolean);
}

// A key reaches a control of a row only while that row has the focus.
function usable(place, key) {
  const able = (control) => !control.disabled && !control.closest("[hidden], [inert]") && (place !== document || !control.closest("[data-row]"));
  return [...place.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].find(able);
}

function clicked(element) {
  element?.click();
  if (element?.matches("details[data-pop][open] > summary")) enter(element.parentElement);
  return Boolean(element);
}

function focused(element) {
  element?.focus();
  element?.select?.();
  return Boolean(element);
}
