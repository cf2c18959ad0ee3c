// Reads the page again, and puts the new content in the place of the old one. Where one was stays where it is.
export async function refresh(selector = "#main") {
  const place = document.querySelector(selector);
  if (!place) return;
  const [top, focused] = [scrollY, place.contains(document.activeElement) && document.activeElement.closest("[id]:not(main)")?.id];
  place.setAttribute("aria-busy", "true");
  await htmx.ajax("GET", location.pathname + location.search, { target: selector, select: selector, swap: "outerHTML show:none" });
  document.querySelector(selector)?.removeAttribute("aria-busy");
  if (selector === "#main") scrollTo({ top, behavior: "instant" });
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}
