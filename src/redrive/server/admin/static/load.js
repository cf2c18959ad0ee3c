// Reads a page, and puts a part of it into this one: for each place one after the other, and without fail.
import { org } from "./api.js";

const underWay = new Map();

// False when it could not be read. What is in its way is told by whoever needs it.
export function load(address, target, { select = target, swap = "outerHTML" } = {}) {
  const read = (underWay.get(target) ?? Promise.resolve()).then(() => once(address, target, select, swap));
  underWay.set(target, read);
  return read;
}

// htmx has one queue for each source, and forgets what waits in it: so each reading is its own.
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
