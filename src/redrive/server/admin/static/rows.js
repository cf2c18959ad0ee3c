// Row actions are written once per page, in a template. This copies them into each row where they are possible.
function furnish(place) {
  const template = place.querySelector("template[data-row-acts]");
  for (const row of template ? place.querySelectorAll("tr[data-row]") : []) {
    const cell = row.querySelector(".row-acts");
    if (!cell || cell.childElementCount) continue;
    const item = itemOf(row);
    for (const control of template.content.children) if (possible(control, item)) cell.append(filled(control, item));
  }
}

// The row of a group has a number of dead letters; the row of a dead letter has a state.
function itemOf(row) {
  const [link, box] = [row.querySelector("[data-open]"), row.querySelector("input[type=checkbox]")];
  const id = decodeURIComponent(new URL(link.href).pathname.split("/").at(-1));
  return { id, name: link.textContent.trim().slice(0, 80), number: box?.dataset.number ?? "", state: box?.dataset.state ?? "" };
}

function possible(control, { number, state }) {
  if (state) return control.dataset.states.split(" ").includes(state);
  return Number(number) > 0 && Number(number) <= Number(control.dataset.most ?? Infinity);
}

function filled(control, item) {
  const made = control.cloneNode(true);
  for (const attribute of made.attributes) attribute.value = attribute.value.replace(/\{(id|name|number)\}/g, (all, key) => written(attribute.name, item[key]));
  return made;
}

function written(attribute, text) {
  if (attribute === "href" || attribute === "data-action") return encodeURIComponent(text);
  return attribute.endsWith("-body") ? JSON.stringify(text).slice(1, -1) : text;
}

const all = () => document.querySelectorAll("[data-selection]").forEach(furnish);
all();
document.addEventListener("htmx:afterSwap", all);
