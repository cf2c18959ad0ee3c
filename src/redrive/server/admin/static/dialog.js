// Dialogs: show the content of another page above the current one. Without scripts, it opens as a page.
import { copied } from "./copy.js";
import { load } from "./load.js";

const dialog = document.querySelector("#dialog");
let opener = null;
let opening = 0;

// Keys that are typed before a dialog is open are not meant for the page below it.
export const isOpening = () => opening > 0;

export async function openDialog(address) {
  if (!dialog.open) opener = document.activeElement;
  opening += 1;
  await load(address, "#dialog-place", { select: "#dialog-content", swap: "innerHTML" });
  opening -= 1;
  if (!dialog.querySelector("#dialog-content")) return location.assign(address);
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector("[autofocus]") ?? dialog.querySelector("button.primary, .button.primary, input, button"))?.focus();
}

export function closeDialog() {
  if (dialog?.open) dialog.close();
}

// Asks for confirmation; true if the user confirms. With `danger`, the Enter key alone does not confirm.
export function ask(text, verb, danger) {
  return new Promise((resolve) => {
    opener = document.activeElement;
    const [title, buttons, yes, no] = ["p", "div", "button", "button"].map((name) => document.createElement(name));
    title.id = "dialog-title";
    title.textContent = text;
    buttons.className = "buttons";
    yes.className = danger ? "danger" : "primary";
    yes.textContent = verb;
    no.textContent = "Cancel";
    buttons.append(yes, no);
    dialog.querySelector("#dialog-place").replaceChildren(title, buttons);
    let answer = false;
    yes.addEventListener("click", () => { answer = true; dialog.close(); });
    no.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => resolve(answer), { once: true });
    dialog.showModal();
    (danger ? no : yes).focus();
  });
}

// Shows a secret that is shown only once, such as a new key.
export function showOnce(text, secret) {
  const [title, field, buttons, copy, close] = ["p", "input", "div", "button", "button"].map((name) => document.createElement(name));
  title.id = "dialog-title";
  title.textContent = text;
  field.value = secret;
  field.readOnly = true;
  field.className = "mono";
  field.setAttribute("aria-labelledby", "dialog-title");
  buttons.className = "buttons";
  copy.className = "primary";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    const done = await copied(secret);
    copy.textContent = done ? "Copied" : "Select the text and copy it";
    if (!done) field.select();
  });
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  buttons.append(copy, close);
  opener = document.activeElement;
  dialog.querySelector("#dialog-place").replaceChildren(title, field, buttons);
  dialog.showModal();
  copy.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-dialog]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  link.closest("details[data-pop]")?.removeAttribute("open");
  openDialog(link.href);
});
dialog?.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
});
dialog?.addEventListener("close", () => {
  dialog.querySelector("#dialog-place").replaceChildren();
  if (opener?.isConnected) opener.focus({ preventScroll: true });
});
