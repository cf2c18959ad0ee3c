// Selecting rows: some by hand, or all that match the query. The number shown is the number affected.
const places = () => document.querySelectorAll("[data-selection]");
const boxes = (place) => [...place.querySelectorAll("tbody input[type=checkbox][name=ids]")];
const chosen = (place) => boxes(place).filter((each) => each.checked);
const isWhole = (place) => place.dataset.whole === "true";
let last = null;
let kept = new Set();

// What a control in the bulk bar is about: {ids} or {query, expect}; nothing where it has no data-selected.
export function selected(element) {
  const place = "selected" in element.dataset ? element.closest("[data-selection]") : null;
  if (!place) return {};
  if (isWhole(place)) return { query: place.dataset.query, expect: Number(place.dataset.number) };
  if (place.dataset.kind === "groups") return { query: ofGroups(place), expect: number(place) };
  return { ids: chosen(place).map((each) => each.value) };
}

const ofGroups = (place) => `fp:${chosen(place).map((each) => each.value).join(",")} is:open,exhausted`;

function number(place) {
  if (isWhole(place)) return Number(place.dataset.number);
  return chosen(place).reduce((sum, each) => sum + Number(each.dataset.number ?? 1), 0);
}

function show(place) {
  const [all, some] = [boxes(place), chosen(place)];
  if (some.length < all.length) place.dataset.whole = false;
  for (const box of all) box.closest("tr").classList.toggle("chosen", box.checked);
  for (const each of place.querySelectorAll("[data-bulk]")) each.hidden = !some.length;
  for (const each of place.querySelectorAll("[data-idle]")) each.hidden = Boolean(some.length);
  const head = place.querySelector("[data-select-all]");
  if (head) {
    head.checked = some.length > 0 && some.length === all.length;
    head.indeterminate = some.length > 0 && some.length < all.length;
    head.disabled = !all.length;
  }
  count(place, "selected", number(place));
  count(place, "selected-rows", some.length);
  const more = all.length > 0 && some.length === all.length && !isWhole(place) && number(place) !== Number(place.dataset.number ?? NaN);
  for (const each of place.querySelectorAll("[data-select-matching-row]")) each.hidden = !more;
  for (const link of place.querySelectorAll("a[data-selected]")) link.href = address(place, link);
  refuse(place, some);
  kept = new Set(some.map((each) => each.value));
}

function count(place, name, value) {
  const shown = name === "selected" ? `[data-selected-number]` : `[data-${name}]`;
  for (const each of place.querySelectorAll(shown)) each.textContent = value.toLocaleString("en");
  for (const each of place.querySelectorAll(`[data-${name}-word]`)) each.textContent = value === 1 ? each.dataset.one : each.dataset.many;
}

function address(place, link) {
  const to = new URL((link.dataset.base ??= link.getAttribute("href")), location.origin);
  const { ids, query } = selected(link);
  if (query === undefined) to.searchParams.set("ids", ids.join(","));
  else to.searchParams.set("q", query);
  return to.pathname + to.search;
}

// What cannot be done with all that is selected is not done with a part of it: it says why. What cannot be done with any
// of it is not there.
function refuse(place, some) {
  const states = new Set(some.map((each) => each.dataset.state).filter(Boolean));
  const reasons = new Set(states.size === 1 && states.has("REPLAYING") ? ["They are being replayed: wait for what comes of it."] : []);
  for (const control of place.querySelectorAll("[data-bulk] [data-states]")) {
    const able = control.dataset.states.split(" ").filter(Boolean);
    control.hidden = states.size > 0 && able.length > 0 && !able.some((each) => states.has(each));
    const why = control.hidden ? "" : hindrance(place, control, able, some);
    control.toggleAttribute("inert", Boolean(why));
    if (why) reasons.add(why);
    if ((why || control.hidden) && control.open) control.open = false;
  }
  for (const each of place.querySelectorAll("[data-selected-reason]")) each.textContent = [...reasons].join(" ");
}

function hindrance(place, control, able, some) {
  if (isWhole(place)) return "rowsOnly" in control.dataset ? "Tags, assignees and reopening need rows that are selected one by one." : "";
  const others = able.length ? some.filter((each) => each.dataset.state && !able.includes(each.dataset.state)) : [];
  if (!others.length) return "";
  if (!able.includes("OPEN")) return "Only closed ones can be reopened.";
  const [is, states] = [others.length === 1 ? "is" : "are", [...new Set(others.map((each) => each.dataset.state.toLowerCase()))].join(" or ")];
  return `${others.length.toLocaleString("en")} of them ${is} ${states}: only open and exhausted ones can be replayed and closed.`;
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

// With the shift key, all from the last one to this one.
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

// What was selected is selected still when the page has been read again, unless something was done with it.
document.addEventListener("acted", (event) => {
  if (event.target.closest("[data-bulk]")) none(event.target.closest("[data-selection]"));
});
document.addEventListener("htmx:afterSwap", () => {
  for (const place of places()) {
    for (const box of boxes(place)) if (kept.has(box.value)) box.checked = true;
    show(place);
  }
});

const showAll = () => places().forEach(show);
showAll();
addEventListener("pageshow", showAll);
