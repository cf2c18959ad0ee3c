// Loads the page again and replaces its content. Scroll position and focus stay.
import { load } from "./load.js";

const rows = () => [...document.querySelectorAll("[data-row]")];

export async function refresh(selector = "#main") {
  const place = document.querySelector(selector);
  if (!place) return;
  const [top, focused] = [scrollY, place.contains(document.activeElement) && document.activeElement.closest("[id]:not(main)")?.id];
  const at = rows().indexOf(document.activeElement?.closest?.("[data-row]"));
  const unfolded = [...place.querySelectorAll("details[id]")].map((details) => [details.id, details.open]);
  place.setAttribute("aria-busy", "true");
  await load(location.pathname + location.search, selector);
  document.querySelector(selector)?.removeAttribute("aria-busy");
  for (const [id, open] of unfolded) document.getElementById(id)?.toggleAttribute("open", open);
  if (selector === "#main") scrollTo({ top, behavior: "instant" });
  if (document.activeElement === document.body) document.querySelector("#main")?.focus({ preventScroll: true });
  if (focused) (document.getElementById(focused) ?? rows()[Math.min(at, rows().length - 1)])?.focus({ preventScroll: true });
}
