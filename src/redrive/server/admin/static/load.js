// Loads a page and puts a part of it into this one. Loads for the same place run one after the other.
import { org } from "./api.js";

const inProgress = new Map();

// Returns false if the page could not be loaded; the caller reports the problem.
export function load(address, target, { select = target, swap = "outerHTML" } = {}) {
  const loaded = (inProgress.get(target) ?? Promise.resolve()).then(() => once(address, target, select, swap));
  inProgress.set(target, loaded);
  return loaded;
}

// htmx drops requests that wait in the queue of a source, so each load has its own source element.
async function once(address, target, select, swap) {
  const source = document.createElement("span");
  source.hidden = true;
  document.body.append(source);
  try {
    await htmx.ajax("GET", address, { source, target, select, swap: `${swap} show:none`, headers: { "X-Redrive-Org": encodeURIComponent(org) } });
    return true;
  } catch {
    return false;
  } finally {
    source.remove();
  }
}
