// Short messages at the bottom of the page. A message with `keep` is shown again on the next page.
const STORAGE_KEY = "redrive.toast";

export function toast(text, { failed = false, keep = false, seconds = failed ? 20 : 8, button } = {}) {
  const place = document.querySelector("#toasts");
  if (keep) sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ text, at: Date.now() }));
  const element = document.createElement("div");
  element.className = failed ? "toast failed" : "toast";
  const message = document.createElement("span");
  message.textContent = text;
  element.append(message);
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

const stored = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
sessionStorage.removeItem(STORAGE_KEY);
if (stored && Date.now() - stored.at < 10_000) toast(stored.text);
