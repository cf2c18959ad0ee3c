// Edit and replay: show the changes of a payload, and what would run, before anything starts.
const HIDDEN = "(changed, not shown)";
const NOTHING = "(nothing)";

document.addEventListener("acted", (event) => {
  const form = document.getElementById(event.target.dataset?.reviews ?? "");
  if (!form) return;
  const { changes, steps } = event.detail;
  const find = (name) => form.querySelector(`[data-review-${name}]`);
  find("title").textContent = changes.length === 1 ? "1 change" : `${changes.length.toLocaleString("en")} changes`;
  find("none").hidden = changes.length > 0;
  find("changes").hidden = !changes.length;
  find("optional").hidden = changes.length > 0;
  find("steps").textContent = steps.map(({ number, name }) => `${number} ${name}`).join(", then ");
  form.elements.reason.required = changes.length > 0;
  form.querySelector("tbody").replaceChildren(...changes.map(row));
  form.hidden = false;
  find("title").focus();
});

function row({ path, before, after }) {
  const [line, name, stored, changed] = ["tr", "th", "td", "td"].map((tag) => document.createElement(tag));
  name.scope = "row";
  name.textContent = path || "the whole payload";
  stored.textContent = written(before);
  changed.textContent = written(after);
  stored.className = "minus break";
  changed.className = "plus break";
  line.append(name, stored, changed);
  return line;
}

const written = (value) => (value === HIDDEN || value === NOTHING ? value : JSON.stringify(value, null, 2));

// The review is about what was sent: after another edit it has to be asked for again.
document.addEventListener("input", (event) => {
  const review = document.getElementById(event.target.form?.dataset.reviews ?? "");
  if (review) review.hidden = true;
});

document.addEventListener("click", (event) => {
  const review = event.target.closest("[data-review-back]")?.form;
  if (!review) return;
  review.hidden = true;
  document.getElementById(review.dataset.with)?.querySelector("textarea").focus();
});
