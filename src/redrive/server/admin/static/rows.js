// What can be done to a row is written once a page, in a template: here it gets into each row that it is possible for.
function furnish(place) {
  const template = place.querySelector("template[data-row-acts]");
  for (const row of template ? place.querySelectorAll("tr[data-row]") : []) {
    const cell = row.querySelector(".row-acts");
    if (!cell || cell.childElementCount) continue;
    const told = about(row);
    for (const control of template.content.children) if (possible(control, told)) cell.append(filled(control, told));
  }
}

// A row of a group has a number of dead letters, one of a single letter has a state.
function about(row) {
  const [link, box] = [row.querySelector("[data-open]"), row.querySelector("input[type=checkbox]")];
  const id = decodeURIComponent(new URL(link.href).pathname.split("/").at(-1));
  return { id, name: link.textContent.trim().slice(0, 80), number: box?.dataset.number ?? "", state: box?.dataset.state ?? "" };
}

function possible(control, { number, state }) {
  if (state) return control.dataset.states.split(" ").includes(state);
  return Number(number) > 0 && Number(number) <= Number(control.dataset.most ?? Infinity);
}

function filled(control, told) {
  const made = control.cloneNode(true);
  for (const attribute of made.attributes) attribute.value = attribute.value.replace(/\{(id|name|number)\}/g, (all, key) => written(attribute.name, told[key]));
  return made;
}

function written(attribute, text) {
  if (attribute === "href" || attribute === "data-action") return encodeURIComponent(text);
  return attribute.endsWith("-body") ? JSON.stringify(text).slice(1, -1) : text;
}

const all = () => document.querySelectorAll("[data-selection]").forEach(furnish);
all();
document.addEventListener("htmx:afterSwap", all);
