// Calls the JSON API with the session of the signed-in user.
let token = null;

// The organization that this page shows. The user may have switched to another one in another tab.
export const org = document.body.dataset.org ?? "";

// The CSRF token proves that a request comes from these pages. No page contains it, so no page can leak it.
async function csrf() {
  if (token !== null) return token;
  const answer = await fetch("/api/v1/session", { headers: { Accept: "application/json" } });
  const session = await answer.json().catch(() => ({}));
  if (!answer.ok) throw problemOf(answer, session);
  token = session.csrf_token ?? "";
  return token;
}

function problemOf(answer, body) {
  if (answer.status === 401) location.assign(`/app/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
  if (body.code === "csrf") token = null;
  return new Problem(body);
}

// A clause as a sentence: "no such run" becomes "No such run."
export const sentence = (text) => text && `${text[0].toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? "" : "."}`;

// JSON as the user wrote it. Parsing it here would round large numbers and turn 1.0 into 1.
export class RawJson {
  constructor(text) {
    try {
      JSON.parse(text);
    } catch (error) {
      throw new Problem({ detail: `The text isn't valid JSON: ${error.message}` });
    }
    this.text = text;
  }
}

const isObject = (value) => Object.getPrototypeOf(value ?? 0) === Object.prototype;

const encoded = (value) => (value instanceof RawJson ? value.text : isObject(value) ? encodedBody(value) : JSON.stringify(value));

function encodedBody(body) {
  const fields = Object.entries(body).filter(([, value]) => value !== undefined);
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${encoded(value)}`).join(",")}}`;
}

export class Problem extends Error {
  constructor(body) {
    super(body.detail ?? "The server can't be reached.");
    this.hint = body.hint?.includes("/api/docs") ? "" : (body.hint ?? "");  // the pages know the format
    this.changes = body.changes ?? [];
    this.number = body.number ?? 0;
    this.code = body.code ?? "unreachable";
  }

  toString() {
    const changes = this.changes.slice(0, 5).map((drift) => `${drift.letter_id ?? ""} ${drift.change?.text ?? ""}`.trim());
    return [sentence(this.message), sentence(this.hint), ...changes].filter(Boolean).join(" ");
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
    answer = await fetch(path, { method, headers, body: headers["Content-Type"] ? encodedBody(body) : undefined });
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem({ hint: "The change may not have been saved. Check when the server is back" });
  }
  const result = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw problemOf(answer, result);
  return result;
}

// Fills "Resolved {changed|dead letter|dead letters}" with the values of a response; a number selects its noun.
export function filled(text, result) {
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (all, name, one, many) => {
    const value = result[name];
    if (value === undefined) return all;
    const shown = Number.isInteger(value) ? value.toLocaleString("en") : String(value);
    return one === undefined ? shown : `${shown} ${value === 1 ? one : many}`;
  });
}
