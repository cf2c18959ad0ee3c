// Replays: show what changed between a plan and its start, and offer what to do about it.
import { call } from "./api.js";
import { toast } from "./toast.js";

const MAX_LISTED = 20;

document.addEventListener("refused", async (event) => {
  const [form, error] = [event.target.closest("[data-replay] form"), event.detail];
  const place = form?.querySelector("[data-drift]");
  if (!place || error.code !== "drift") return;
  event.preventDefault();
  if (place.dataset.look) {
    const found = error.changes.length ? error : await call(place.dataset.look).catch(() => null);
    if (!found?.number) return toast(String(error), { failed: true });
    differences(place, found);
  } else otherNumber(place, form.elements.expect, error);
  for (const buttons of form.querySelectorAll("[data-start]")) buttons.hidden = true;
  place.hidden = false;
  (place.querySelector("button:not([hidden])") ?? place).focus();
});

function differences(place, { number, changes }) {
  place.querySelector("[data-drift-number]").textContent = number === 1 ? "1 dead letter has" : `${number.toLocaleString("en")} dead letters have`;
  place.querySelector("[data-drift-list]").replaceChildren(...changes.slice(0, MAX_LISTED).map(change));
  const more = place.querySelector("[data-drift-more]");
  more.hidden = number <= MAX_LISTED;
  more.textContent = `and ${(number - MAX_LISTED).toLocaleString("en")} more`;
  startOthers(place.querySelector("[data-others]"), Number(place.dataset.planned) - number);
}

// The number on the button is the number of dead letters that will be replayed.
function startOthers(button, number) {
  button.hidden = number <= 0;
  button.textContent = `Start the other ${number.toLocaleString("en")}`;
  button.dataset.body = JSON.stringify({ accept_drift: true, expect: number });
}

function change({ letter_id: id, change: { text } }) {
  const [item, link] = ["li", "a"].map((name) => document.createElement(name));
  link.href = `/app/admin/dlq/${encodeURIComponent(id)}`;
  link.className = "id";
  link.textContent = `${id.slice(0, 8)}…${id.slice(-4)}`;
  item.append(link, `: ${text}`);
  return item;
}

// Plans the current number of dead letters, and sends it along as the expected one.
function otherNumber(place, field, { number }) {
  place.querySelector("[data-drift-number]").textContent = `${number.toLocaleString("en")} can be replayed now.`;
  place.querySelector("[data-plan-these]").textContent = `Plan these ${number.toLocaleString("en")}`;
  field.value = number;
}

// Only the plan knows how many are skipped, so there is no number to expect.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-changes-number]")) event.target.form.elements.expect.disabled = event.target.checked;
});

document.addEventListener("invalid", (event) => event.target.closest("details")?.setAttribute("open", ""), true);
