// Calls of the JSON API, in the name of whoever has signed in.
let token = null;

// The organization that this page shows. In another tab somebody may have entered another one since.
export const org = document.body.dataset.org ?? "";

// That no other site can make the browser send this. It is in no page, so no page can be made to tell it.
async function csrf() {
  if (token !== null) return token;
  const answer = await fetch("/api/v1/session", { headers: { Accept: "application/json" } });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw refused(answer, told);
  token = told.csrf_token ?? "";
  return token;
}

function refused(answer, told) {
  if (answer.status === 401) location.assign(`/app/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
  if (told.code === "csrf") token = null;
  return new Problem(told);
}

export class Problem extends Error {
  constructor(told) {
    super(told.detail ?? "The server cannot be reached.");
    this.hint = told.hint ?? "";
    this.changes = told.changes ?? [];
    this.number = told.number ?? 0;
    this.code = told.code ?? "unreachable";
  }

  toString() {
    const changes = this.changes.slice(0, 5).map((each) => `${each.letter_id ?? ""} ${each.change ?? ""}`.trim());
    return [`${this.message}${/[.?!]$/.test(this.message) ? "" : "."}`, this.hint && `${this.hint}.`, ...changes].filter(Boolean).join(" ");
  }
}

export async function call(action, body, version) {
  const [method, path] = action.split(" ");
  const headers = { Accept: "application/json", "X-Redrive-Org": encodeURIComponent(org) };
  if (body !== undefined && method !== "DELETE") headers["Content-Type"] = "application/json";
  if (version) headers["If-Match"] = `"${version}"`;
  let answer;
  try {
    headers["X-CSRF-Token"] = await csrf();
    answer = await fetch(path, { method, headers, body: headers["Content-Type"] ? JSON.stringify(body) : undefined });
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem({ hint: "Nothing was changed as far as this page knows; look again when it is back" });
  }
  const told = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw refused(answer, told);
  return told;
}

// "Resolved {changed|dead letter|dead letters}" with what the answer holds; a number may choose its noun.
export function filled(text, told) {
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (all, name, one, many) => {
    const value = told[name];
    if (value === undefined) return all;
    const shown = Number.isInteger(value) ? value.toLocaleString("en") : String(value);
    return one === undefined ? shown : `${shown} ${value === 1 ? one : many}`;
  });
}
