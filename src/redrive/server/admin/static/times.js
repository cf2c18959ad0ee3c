// Keeps "12 min ago" true.
const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

function age(seconds) {
  const [size, name] = UNITS.find(([each]) => seconds >= each) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${name}`;
}

function told(moment, floor) {
  const seconds = (Date.now() - moment) / 1000;
  if (Math.abs(seconds) < 1 || (floor && seconds > 0)) return "now";
  return seconds > 0 ? `${age(seconds)} ago` : `in ${age(-seconds)}`;
}

export function tick() {
  for (const each of document.querySelectorAll("time[data-ago]")) {
    const text = told(Date.parse(each.dateTime), each.dataset.ago === "now");
    if (each.textContent !== text) each.textContent = text;
  }
}

setInterval(tick, 1000);
