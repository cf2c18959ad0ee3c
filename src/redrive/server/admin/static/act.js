// Actions: forms and buttons with data-action call the API and report the result.
import { call, filled, Problem, RawJson } from "./api.js";
import { ask, closeDialog, openDialog, showOnce } from "./dialog.js";
import { selected } from "./selection.js";
import { refresh } from "./refresh.js";
import { toast } from "./toast.js";
import { offerUndo } from "./undo.js";

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-action]");
  if (!form) return;
  event.preventDefault();
  act(form, () => ({ ...bodyOf(document.getElementById(form.dataset.with ?? "")), ...bodyOf(form) }));
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button) act(button, () => ({ ...constant(button), ...selected(button) }));
});

export async function act(element, read) {
  if (element.getAttribute("aria-busy") === "true") return;
  const problem = element.querySelector?.("[data-problem]");
  if (problem) problem.hidden = true;
  let before = null;
  try {
    const body = read();
    if (element.dataset.confirm && !(await ask(element.dataset.confirm, element.textContent.trim()))) return;
    before = document.activeElement;
    element.setAttribute("aria-busy", "true");
    const result = await call(element.dataset.action, body, element.dataset.match);
    await done(element, body, result ?? {});
  } catch (error) {
    const refused = new CustomEvent("refused", { bubbles: true, cancelable: true, detail: error });
    if (!element.dispatchEvent(refused)) return;
    report(error, problem);
    before?.isConnected && before.focus();
  } finally {
    element.removeAttribute("aria-busy");
  }
}

async function done(element, body, result) {
  const { done: text, undo, undoBody, then = "refresh" } = element.dataset;
  const [verb, address = ""] = [then.split(" ")[0], then.slice(then.indexOf(" ") + 1)];
  element.dispatchEvent(new CustomEvent("acted", { bubbles: true, detail: result }));
  if (undo) offerUndo(filled(text ?? "Done", result), undo, undoOf(undoBody, body, result));
  else if (text) toast(filled(text, result), { keep: verb === "go" });
  element.closest("details[data-pop]")?.removeAttribute("open");
  if (verb === "go") location.assign(filled(address, result));
  else if (verb === "dialog") await openDialog(filled(address, result));
  else if (verb === "refresh") closeDialog();
  if (element.dataset.show) showOnce(element.dataset.showTitle, String(result[element.dataset.show]));
  if (verb === "refresh") await refresh();
}

function undoOf(text, body, result) {
  if (text) return JSON.parse(text);
  return { ids: result.ids ?? body.ids ?? [] };
}

function report(error, place) {
  const text = error instanceof Problem ? String(error) : error.message;
  if (!(error instanceof Problem)) console.error(error);
  if (!place) return toast(text, { failed: true });
  place.textContent = text;
  place.hidden = false;
}

const constant = (element) => JSON.parse(element.dataset.body ?? "{}");

// The fields of a form as JSON. A name with dots is a nested field; checkboxes with data-type="item" form a list.
function bodyOf(form) {
  if (!form) return {};
  const body = constant(form);
  for (const field of form.elements) {
    if (!field.name || field.disabled || (field.type === "radio" && !field.checked)) continue;
    if (field.dataset.type === "item") {
      body[field.name] = [...(body[field.name] ?? []), ...(field.checked ? [field.value] : [])];
      continue;
    }
    const value = valueOf(field);
    if (value !== undefined) put(body, field.name.split("."), value);
  }
  return { ...body, ...selected(form) };
}

function valueOf(field) {
  if (field.type === "checkbox") return field.checked;
  if ("unlessSame" in field.dataset && field.value === field.defaultValue) return undefined;
  const text = field.value.trim();
  if (!text) return "keepEmpty" in field.dataset ? null : undefined;
  switch (field.dataset.type) {
    case "json": return new RawJson(text);
    case "number": return Number(text);
    case "percent": return Number(text) / 100;
    case "seconds": return Number(text) * Number(field.dataset.unit ?? 1);
    case "list": return text.split(/[\s,]+/).filter(Boolean);
    case "from-now": return new Date(Date.now() + Number(text) * 1000).toISOString();
    default: return field.value;
  }
}

function put(body, [name, ...rest], value) {
  if (!rest.length) body[name] = value;
  else put((body[name] ??= {}), rest, value);
}
