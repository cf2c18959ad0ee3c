// Keeps relative times such as "12 min ago" up to date.
const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

function age(seconds) {
  const [size, name] = UNITS.find(([unit]) => seconds >= unit) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${name}`;
}

function relative(moment, floor) {
  const seconds = (Date.now() - moment) / 1000;
  if (Math.abs(seconds) < 1 || (floor && seconds > 0)) return "now";
  return seconds > 0 ? `${age(seconds)} ago` : `in ${age(-seconds)}`;
}

export function tick() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = relative(Date.parse(time.dateTime), time.dataset.ago === "now");
    if (time.textContent !== text) time.textContent = text;
  }
}

setInterval(tick, 1000);
