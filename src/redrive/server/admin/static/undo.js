// Undo with one key, for a minute, also on the next page.
import { call, org } from "./api.js";
import { refresh } from "./refresh.js";
import { toast } from "./toast.js";

const STORAGE_KEY = "redrive.undo";
const MILLISECONDS = 60_000;

export function offerUndo(text, action, body) {
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ text, action, body, org, at: Date.now() }));
  show();
}

export async function undo() {
  const stored = last();
  if (!stored) return toast("Nothing to undo.");
  sessionStorage.removeItem(STORAGE_KEY);
  try {
    for (const [action, body] of calls(stored)) await call(action, body);
    toast("Undone.");
  } catch (error) {
    toast(String(error), { failed: true });
  }
  await refresh();
}

// Several calls are separated by " & "; only the one about dead letters takes their ids.
function calls({ action, body }) {
  const requests = action.split(" & ").map((request) => [request, request.endsWith("/dead-letters/reopen") ? body : action.includes(" & ") ? {} : body]);
  return requests.filter(([, content]) => content?.ids?.length !== 0);
}

function last() {
  const stored = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
  return stored && stored.org === org && Date.now() - stored.at < MILLISECONDS ? stored : null;
}

function show() {
  const stored = last();
  if (!stored) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Undo";
  button.title = "Undo (u)";
  button.addEventListener("click", undo);
  toast(stored.text, { button, seconds: (MILLISECONDS - (Date.now() - stored.at)) / 1000 });
}

show();
