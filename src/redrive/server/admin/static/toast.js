// Short messages at the foot of the page. One that is kept is still there after going to another page.
const KEPT = "redrive.toast";

export function toast(text, { failed = false, keep = false, seconds = failed ? 20 : 8, button } = {}) {
  const place = document.querySelector("#toasts");
  if (keep) sessionStorage.setItem(KEPT, JSON.stringify({ text, at: Date.now() }));
  const element = document.createElement("div");
  element.className = failed ? "toast failed" : "toast";
  const said = document.createElement("span");
  said.textContent = text;
  element.append(said);
  if (button) element.append(button);
  else element.append(closing(element));
  place.replaceChildren(element);
  setTimeout(() => element.remove(), seconds * 1000);
  return element;
}

function closing(element) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Close";
  button.addEventListener("click", () => element.remove());
  return button;
}

const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
sessionStorage.removeItem(KEPT);
if (kept && Date.now() - kept.at < 10_000) toast(kept.text);
