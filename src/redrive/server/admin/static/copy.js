// Copies a command, an id, the address of the page, or the text of another element: data-copy-of="its id".
import { toast } from "./toast.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-link], [data-copy-of]");
  if (!button) return;
  const { copy, copyOf, copyLink } = button.dataset;
  const text = copyLink !== undefined ? new URL(copyLink || location.href, location.href).href : copy ?? document.getElementById(copyOf)?.textContent ?? "";
  const done = await copied(text);
  toast(done ? `Copied: ${text.length > 120 ? `${text.slice(0, 119)}…` : text}` : "Your browser doesn't allow this page to copy.", { failed: !done });
});

export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return writtenBySelection(text);
  }
}

// Browsers offer the clipboard API only over TLS and on localhost. This works everywhere.
function writtenBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  (document.querySelector("dialog[open]") ?? document.body).append(field);  // the rest of the page is inert then
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
