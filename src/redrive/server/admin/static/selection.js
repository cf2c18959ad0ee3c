// Selecting rows: some by hand, or all that match the query. The number shown is the number affected.
const forms = () => document.querySelectorAll("[data-selection]");

// What a control in the bulk bar is about: {ids} or {query, expect}; nothing where it has no data-selected.
export function selected(element) {
  const kind = element.dataset.selected;
  const form = kind === undefined ? null : element.closest("[data-selection]");
  if (!form) return {};
  if (form.dataset.whole === "true") return { query: form.dataset.query, expect: Number(form.dataset.number) };
  return { ids: chosen(form) };
}

const boxes = (form) => [...form.querySelectorAll("tbody input[type=checkbox][name=ids]")];
const chosen = (form) => boxes(form).filter((each) => each.checked).map((each) => each.value);

export function show(form) {
  const all = boxes(form);
  const number = chosen(form).length;
  const whole = form.dataset.whole === "true" && number === all.length;
  form.dataset.whole = whole;
  for (const box of all) box.closest("tr").classList.toggle("chosen", box.checked);
  for (const each of form.querySelectorAll("[data-bulk]")) each.hidden = !number;
  for (const each of form.querySelectorAll("[data-idle]")) each.hidden = Boolean(number);
  const shown = whole ? Number(form.dataset.number) : number;
  for (const each of form.querySelectorAll("[data-selected-number]")) each.textContent = shown.toLocaleString("en");
  for (const each of form.querySelectorAll("[data-select-matching]")) each.hidden = whole || number < all.length;
  const head = form.querySelector("[data-select-all]");
  if (head) [head.checked, head.indeterminate] = [number > 0 && number === all.length, number > 0 && number < all.length];
  for (const link of form.querySelectorAll("a[data-selected]")) link.href = address(form, link, whole);
}

function address(form, link, whole) {
  const to = new URL(link.dataset.base ??= link.getAttribute("href"), location.origin);
  if (whole) to.searchParams.set("q", form.dataset.query);
  else if (form.dataset.kind === "groups") to.searchParams.set("q", `fp:${chosen(form).join(",")} is:open,exhausted`);
  else to.searchParams.set("ids", chosen(form).join(","));
  return to.pathname + to.search;
}

document.addEventListener("change", (event) => {
  const form = event.target.closest?.("[data-selection]");
  if (!form) return;
  if (event.target.matches("[data-select-all]")) for (const box of boxes(form)) box.checked = event.target.checked;
  if (event.target.matches("[data-select-all], [name=ids]")) {
    form.dataset.whole = false;
    show(form);
  }
});

document.addEventListener("click", (event) => {
  const form = event.target.closest("[data-selection]");
  if (event.target.closest("[data-select-matching]")) form.dataset.whole = true;
  else if (event.target.closest("[data-select-none]")) for (const box of boxes(form)) box.checked = false;
  else return;
  show(form);
});

for (const form of forms()) show(form);
document.addEventListener("htmx:afterSettle", () => forms().forEach(show));
