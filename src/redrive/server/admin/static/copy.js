// Copies a command, an id, the address of the page, or what stands in another element: data-copy-of="its id".
import { toast } from "./toast.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-link], [data-copy-of]");
  if (!button) return;
  const { copy, copyOf, copyLink } = button.dataset;
  const text = copyLink !== undefined ? new URL(copyLink || location.href, location.href).href : copy ?? document.getElementById(copyOf)?.textContent ?? "";
  const done = await written(text);
  toast(done ? `Copied: ${text.length > 120 ? `${text.slice(0, 119)}…` : text}` : "The browser does not let this page copy.", { failed: !done });
});

async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return writtenByHand(text);
  }
}

// Without TLS, and not on this machine, browsers have no clipboard for pages but this.
function writtenByHand(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
