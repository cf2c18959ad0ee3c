// Live updates: server-sent events update counters and regions. Rows never move while someone reads them.
import { org } from "./api.js";
import { load } from "./load.js";
import { refresh } from "./refresh.js";

const POLL_MILLISECONDS = 15_000;
const MIN_REFRESH_MILLISECONDS = 2_000;
const RECONNECT_MILLISECONDS = 5_000;
let source = null;
let last = "";
let breakers = null;
let lost = null;
const due = new Map();

function open() {
  if (source || document.hidden || !window.EventSource || !document.querySelector("#status")) return;
  source = new EventSource(`/api/v1/events?org=${encodeURIComponent(org)}${last && `&after=${last}`}`);
  source.addEventListener("open", () => connected(true));
  source.addEventListener("error", failed);
  source.addEventListener("counters", (event) => counted(JSON.parse(event.data)));
  source.addEventListener("entry", (event) => {
    last = event.lastEventId;
    happened(JSON.parse(event.data));
  });
  source.addEventListener("reset", (event) => {
    last = event.lastEventId;
    for (const region of document.querySelectorAll("[data-live]")) news(region, 1_000);
    happened({ action: "", number: 0 });
  });
}

// Browsers reconnect automatically, except after a refusal.
function failed() {
  connected(false);
  if (source?.readyState !== EventSource.CLOSED) return;
  source = null;
  setTimeout(open, RECONNECT_MILLISECONDS * (1 + Math.random()));
}

// Browsers limit the connections to one server, so a hidden page closes its own.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return open();
  source?.close();
  source = null;
});
addEventListener("pagehide", () => { source?.close(); source = null; });
addEventListener("pageshow", open);

function connected(live) {
  lost = live ? null : (lost ?? new Date());
  document.documentElement.dataset.live = live;
  showConnection();
}

function showConnection() {
  const word = document.querySelector("[data-connection-word]");
  const state = word?.closest(".state");
  if (!word || (document.documentElement.dataset.live ?? "") === "") return;
  const since = lost?.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  word.textContent = lost ? "Disconnected" : "Live";
  if (lost) word.append(Object.assign(document.createElement("span"), { className: "wide", textContent: ` since ${since}` }));
  state.className = lost ? "state warn" : "state good";
}

function counted(counters) {
  for (const place of document.querySelectorAll("[data-counter]")) {
    const sum = place.dataset.counter.split(" ").reduce((all, name) => all + (counters.dead_letters?.[name.split(".")[1]] ?? 0), 0);
    place.textContent = sum.toLocaleString("en");
  }
  const now = JSON.stringify(counters.breakers ?? {});
  const letters = ["OPEN", "REPLAYING", "EXHAUSTED"].map((state) => counters.dead_letters?.[state] ?? 0).join(" ");
  const changed = breakers !== null && breakers !== now;
  if (changed || letters !== document.querySelector("#status")?.dataset.letters) status();
  if (changed) reread("breaker.");  // what a page says about breakers agrees with the banner
  breakers = now;
}

// Only the server knows how many need attention: some will be redriven automatically.
function badge() {
  const [place, number] = [document.querySelector("[data-attention]"), Number(document.querySelector("#status")?.dataset.attentionNumber)];
  if (!place || Number.isNaN(number)) return;
  place.textContent = number.toLocaleString("en");
  place.hidden = !number;
}

function happened({ action, number, subjects = [] }) {
  // A region about one item (data-about) listens only to its events; an event about many items does not name all.
  const about = ({ dataset }) => !dataset.about || subjects.includes(dataset.about) || number > subjects.length;
  for (const region of document.querySelectorAll("[data-live]")) if (matches(region.dataset.live, action) && about(region)) news(region, region.dataset.about ? 1 : number);
  reread(action, about);
}

function reread(action, about = () => true) {
  for (const region of document.querySelectorAll("[data-refresh]")) if (!action || (matches(region.dataset.refresh, action) && about(region))) soon(`#${region.id}`);
}

const matches = (prefixes, action) => prefixes.split(" ").some((prefix) => prefix && action.startsWith(prefix));

function news(region, number) {
  const place = region.querySelector("[data-news]");
  if (!place) return;
  const sum = Number(place.dataset.number ?? 0) + number;
  place.dataset.number = sum;
  place.textContent = `${sum.toLocaleString("en")} new`;
  place.hidden = false;
}

// Waits while someone is typing or has something open there.
function soon(selector) {
  if (due.has(selector)) return;
  due.set(selector, setTimeout(async () => {
    due.delete(selector);
    const region = document.querySelector(selector);
    if (!region || document.hidden) return;
    if (region.querySelector("details[data-pop][open]") || region.contains(document.activeElement?.closest("input, textarea, select"))) return soon(selector);
    await refresh(selector);
  }, MIN_REFRESH_MILLISECONDS));
}

async function status() {
  if (document.hidden || !document.querySelector("#status")) return;
  await load("/app/admin/status", "#status");
  showConnection();
  badge();
}

setInterval(() => {
  if (document.hidden) return;
  if (document.querySelector("#status.alarm")) status();
  for (const region of document.querySelectorAll("[data-refresh]")) soon(`#${region.id}`);
}, POLL_MILLISECONDS);

open();
