// Selecting rows: one at a time, or all that match the query. The number shown is the number affected.
const places = () => document.querySelectorAll("[data-selection]");
const boxes = (place) => [...place.querySelectorAll("tbody input[type=checkbox][name=ids]")];
const chosen = (place) => boxes(place).filter((box) => box.checked);
const isWhole = (place) => place.dataset.whole === "true";
let last = null;
let selectedIds = new Set();

// The selection that a control in the bulk bar acts on: {ids} or {query, expect}; empty without data-selected.
export function selected(element) {
  const place = "selected" in element.dataset ? element.closest("[data-selection]") : null;
  if (!place) return {};
  if (isWhole(place)) return { query: place.dataset.query, expect: Number(place.dataset.number) };
  if (place.dataset.kind === "groups") return { query: ofGroups(place), expect: number(place) };
  return { ids: chosen(place).map((box) => box.value) };
}

const ofGroups = (place) => `fp:${chosen(place).map((box) => box.value).join(",")} is:open,exhausted`;

function number(place) {
  if (isWhole(place)) return Number(place.dataset.number);
  return chosen(place).reduce((sum, box) => sum + Number(box.dataset.number ?? 1), 0);
}

function show(place) {
  const [all, some] = [boxes(place), chosen(place)];
  if (some.length < all.length) place.dataset.whole = false;
  for (const box of all) box.closest("tr").classList.toggle("chosen", box.checked);
  for (const bar of place.querySelectorAll("[data-bulk]")) bar.hidden = !some.length;
  for (const bar of place.querySelectorAll("[data-idle]")) bar.hidden = Boolean(some.length);
  const head = place.querySelector("[data-select-all]");
  if (head) {
    head.checked = some.length > 0 && some.length === all.length;
    head.indeterminate = some.length > 0 && some.length < all.length;
    head.disabled = !all.length;
  }
  count(place, "selected", number(place));
  count(place, "selected-rows", some.length);
  const more = all.length > 0 && some.length === all.length && !isWhole(place) && number(place) !== Number(place.dataset.number ?? NaN);
  for (const offer of place.querySelectorAll("[data-select-matching-row]")) offer.hidden = !more;
  for (const link of place.querySelectorAll("a[data-selected]")) link.href = address(place, link);
  restrict(place, some);
  selectedIds = new Set(some.map((box) => box.value));
}

function count(place, name, value) {
  const shown = name === "selected" ? `[data-selected-number]` : `[data-${name}]`;
  for (const counter of place.querySelectorAll(shown)) counter.textContent = value.toLocaleString("en");
  for (const noun of place.querySelectorAll(`[data-${name}-word]`)) noun.textContent = value === 1 ? noun.dataset.one : noun.dataset.many;
}

function address(place, link) {
  const to = new URL((link.dataset.base ??= link.getAttribute("href")), location.origin);
  const { ids, query } = selected(link);
  if (query === undefined) to.searchParams.set("ids", ids.join(","));
  else to.searchParams.set("q", query);
  return to.pathname + to.search;
}

// Disables actions that are not possible for the whole selection, and shows the reason. Hides actions that are not
// possible for any selected row.
function restrict(place, some) {
  const states = new Set(some.map((box) => box.dataset.state).filter(Boolean));
  const reasons = new Set(states.size === 1 && states.has("REPLAYING") ? ["A replay is in progress. Wait for the outcome."] : []);
  for (const control of place.querySelectorAll("[data-bulk] [data-states]")) {
    const able = control.dataset.states.split(" ").filter(Boolean);
    control.hidden = states.size > 0 && able.length > 0 && !able.some((state) => states.has(state));
    const why = control.hidden ? "" : whyBlocked(place, control, able, some);
    control.toggleAttribute("inert", Boolean(why));
    if (why) reasons.add(why);
    if ((why || control.hidden) && control.open) control.open = false;
  }
  for (const hint of place.querySelectorAll("[data-selected-reason]")) hint.textContent = [...reasons].join(" ");
}

function whyBlocked(place, control, able, some) {
  if (isWhole(place)) return "rowsOnly" in control.dataset ? "To tag, assign or reopen, select rows individually." : "";
  const others = able.length ? some.filter((box) => box.dataset.state && !able.includes(box.dataset.state)) : [];
  if (!others.length) return "";
  if (!able.includes("OPEN")) return "Only closed dead letters can be reopened.";
  const [is, states] = [others.length === 1 ? "is" : "are", [...new Set(others.map((box) => box.dataset.state.toLowerCase()))].join(" or ")];
  return `${others.length.toLocaleString("en")} ${is} ${states}. Only open and exhausted dead letters can be replayed or closed.`;
}

function none(place) {
  for (const box of boxes(place)) box.checked = false;
  place.dataset.whole = false;
  show(place);
}

document.addEventListener("change", (event) => {
  const place = event.target.closest?.("[data-selection]");
  if (!place || !event.target.matches("[data-select-all], [name=ids]")) return;
  if (event.target.matches("[data-select-all]")) for (const box of boxes(place)) box.checked = event.target.checked;
  place.dataset.whole = false;
  show(place);
});

document.addEventListener("click", (event) => {
  const place = event.target.closest("[data-selection]");
  if (!place) return;
  if (event.target.matches("[name=ids]")) between(place, event);
  else if (event.target.closest("[data-select-matching]")) place.dataset.whole = true;
  else if (event.target.closest("[data-select-none]")) return none(place);
  else return;
  show(place);
});

// With the shift key, selects all rows from the last one to this one.
function between(place, event) {
  const all = boxes(place);
  const [from, to] = [all.indexOf(last), all.indexOf(event.target)].sort((one, other) => one - other);
  if (event.shiftKey && from >= 0) for (const box of all.slice(from, to + 1)) box.checked = event.target.checked;
  last = event.target;
}

document.addEventListener("keydown", (event) => {
  const within = event.target.closest?.("input:not([type=checkbox]), textarea, select, dialog, details[open]");
  if (event.key !== "Escape" || event.defaultPrevented || within || document.querySelector("details[data-pop][open]")) return;
  for (const place of places()) if (chosen(place).length) none(place);
});

// The selection survives a refresh of the page, but not an action on it.
document.addEventListener("acted", (event) => {
  if (event.target.closest("[data-bulk]")) none(event.target.closest("[data-selection]"));
});
document.addEventListener("htmx:afterSwap", () => {
  for (const place of places()) {
    for (const box of boxes(place)) if (selectedIds.has(box.value)) box.checked = true;
    show(place);
  }
});

const showAll = () => places().forEach(show);
showAll();
addEventListener("pageshow", showAll);
