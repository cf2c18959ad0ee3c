// Undo: one key, for a minute, also on the next page.
import { call, org } from "./api.js";
import { refresh } from "./refresh.js";
import { toast } from "./toast.js";

const KEPT = "redrive.undo";
const MILLISECONDS = 60_000;

export function offerUndo(text, action, body) {
  sessionStorage.setItem(KEPT, JSON.stringify({ text, action, body, org, at: Date.now() }));
  show();
}

export async function undo() {
  const kept = last();
  if (!kept) return toast("There is nothing to undo.");
  sessionStorage.removeItem(KEPT);
  try {
    for (const [action, body] of calls(kept)) await call(action, body);
    toast("Undone.");
  } catch (error) {
    toast(String(error), { failed: true });
  }
  await refresh();
}

// Several calls are written with " & " between them; only the one about dead letters takes their ids.
function calls({ action, body }) {
  const several = action.split(" & ").map((each) => [each, each.endsWith("/dead-letters/reopen") ? body : action.includes(" & ") ? {} : body]);
  return several.filter(([, each]) => each?.ids?.length !== 0);
}

function last() {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  return kept && kept.org === org && Date.now() - kept.at < MILLISECONDS ? kept : null;
}

function show() {
  const kept = last();
  if (!kept) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Undo";
  button.title = "Undo (u)";
  button.addEventListener("click", undo);
  toast(kept.text, { button, seconds: (MILLISECONDS - (Date.now() - kept.at)) / 1000 });
}

show();
