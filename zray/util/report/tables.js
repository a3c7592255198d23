"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#c9b400"];
const GREYS = ["#8a94a0", "#a3acb7", "#727d8a"];
const colourOf = (number) => COLOURS[number] || GREYS[number % GREYS.length];
const KINDS = {
  run: "run of", program: "code of the program", queue: "waits to begin:", result: "result on its way from",
  blocked: "wait for something that is no task",
};

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
function seconds(value) {
  if (value <= 0) return "0";
  if (value < 1e-3) return Math.round(value * 1e6) + " µs";
  if (value < 1) return Number((value * 1e3).toPrecision(3)) + " ms";
  if (value < 60) return Number(value.toPrecision(3)) + " s";
  const whole = Math.round(value);
  if (whole < 3600) return Math.floor(whole / 60) + "m " + String(whole % 60).padStart(2, "0") + "s";
  return Math.floor(whole / 3600) + "h " + String(Math.floor(whole / 60) % 60).padStart(2, "0") + "m";
}
function bytes(value) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return Number(value.toPrecision(3)) + " " + unit;
    value /= 1024;
  }
  return Number(value.toPrecision(3)) + " TiB";
}
const count = (value) => value.toLocaleString("en");
const percent = (share) => (share < 0.1 && share > 0 ? (100 * share).toFixed(1) : Math.round(100 * share)) + " %";
/* Text with `names` in it, as nodes. */
function withCode(text) {
  const found = document.createDocumentFragment();
  text.split("`").forEach((part, place) => found.append(place % 2 ? element("code", part) : part));
  return found;
}

/* --- the head --- */

by("program").textContent = data.program || "a session";
by("headline").textContent = data.headline;
for (const [name, words, share] of data.usage) {
  if (share < 0.0005) continue;
  const part = element("div");
  part.style.flex = String(share);
  part.style.background = "var(--" + name + ")";
  part.title = percent(share) + " " + words;
  by("usage").append(part);
  const item = element("li");
  const mark = element("i");
  mark.style.background = "var(--" + name + ")";
  item.append(mark, percent(share) + " " + words);
  by("legend").append(item);
}
by("usage").setAttribute("aria-label", "Cores: " + data.usage.map(([, words, share]) => percent(share) + " " + words).join(", "));
for (const finding of data.findings.slice(0, 8)) {
  const item = element("li");
  const words = element("div");
  words.append(withCode(finding.text));
  const advice = element("span", undefined, "advice");
  advice.append(withCode(finding.advice));
  words.append(advice);
  item.append(element("span", percent(Math.min(finding.share, 1)), "share"), words);
  by("findings").append(item);
}
if (!data.findings.length) {
  const item = element("li");
  item.append(element("span", ""), element("div", "Nothing else stands out."));
  by("findings").append(item);
}
for (const [name, value] of data.facts) {
  const fact = element("div", undefined, value.length > 14 ? "long" : "");
  fact.append(element("dt", name), element("dd", value));
  by("facts").append(fact);
}
by("notes-section").hidden = !data.notes.length;
for (const note of data.notes) by("notes").append(element("li", note));

/* --- tables --- */

function fill(table, heads, rows) {
  const head = element("tr");
  heads.forEach((words, place) => head.append(element("th", words, place === 0 ? "words" : "")));
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  body.append(...rows);
  table.replaceChildren(top, body);
}
function rowOf(cells) {
  const row = element("tr");
  for (const cell of cells) {
    if (cell instanceof Node) row.append(cell);
    else row.append(element("td", cell));
  }
  return row;
}
function named(name, number) {
  const cell = element("td", undefined, "mono");
  if (number >= 0) {
    const mark = element("span", undefined, "swatch");
    mark.style.background = colourOf(number);
    cell.append(mark);
  }
  cell.append(name);
  cell.title = name;
  return cell;
}
function withPart(text, share) {
  const cell = element("td", text);
  const part = element("span", undefined, "part");
  part.style.width = Math.max(1, Math.round(60 * share)) + "px";
  const room = element("span");
  room.style.cssText = "display:inline-block;width:" + (60 - Math.max(1, Math.round(60 * share))) + "px";
  cell.append(part, room);
  return cell;
}
const numberOf = new Map(data.functions.map((each, number) => [each.name, number]));
function stepName(kind, name) {
  const cell = element("td", undefined, "words");
  if (kind === "run") {
    const mark = element("span", undefined, "swatch");
    mark.style.background = colourOf(numberOf.get(name));
    cell.append(mark);
  }
  cell.append(KINDS[kind] + (name && kind !== "blocked" ? " " : ""));
  if (name && kind !== "blocked") cell.append(element("code", name));
  return cell;
}
fill(
  by("path"), ["part", "times", "seconds", "share"],
  data.path.rows.filter((row, place) => place < 12 || row[3] > 0.01 * data.duration).map(([kind, name, times, spent]) =>
    rowOf([stepName(kind, name), count(times), seconds(spent), withPart(percent(spent / data.duration), spent / data.duration)]))
);
by("steps-title").textContent = data.path.steps.length < data.path.count
  ? "The longest " + count(data.path.steps.length) + " of " + count(data.path.count) + " steps, in the order of time"
  : "All " + count(data.path.count) + " steps, in the order of time";
fill(
  by("steps"), ["step", "begin", "seconds", "task"],
  data.path.steps.map(([kind, name, begin, end, id]) =>
    rowOf([stepName(kind, name), seconds(begin), seconds(end - begin), element("td", id.slice(0, 32), "mono")]))
);

by("changes-section").hidden = !data.changes.length;
by("changes-count").textContent = count(data.changes.length) + " changes of nodes, workers, programs, actors and placement groups";
fill(
  by("changes"), ["what", "at", "state", "pid", "why"],
  data.changes.map(([at, kind, name, state, reason, pid]) =>
    rowOf([element("td", kind + " " + name.slice(0, 32), "words"), seconds(at),
      element("td", state.toLowerCase(), state === "DEAD" && kind !== "job" ? "bad" : ""), pid ? String(pid) : "", element("td", reason, "words")]))
);

const COLUMNS = [
  ["name", "function", null], ["runs", "runs", count], ["total", "total", seconds], ["mean", "mean", seconds],
  ["p50", "p50", seconds], ["p99", "p99", seconds], ["longest", "max", seconds],
  ["waits_arguments", "waits for arguments", seconds], ["waits_turn", "waits to begin", seconds], ["failed", "failed", count], ["retries", "retries", count],
];
let sorted = "total", isUp = false;
function showFunctions() {
  const rows = data.functions.map((each, number) => [each, number]);
  rows.sort(([a], [b]) => {
    const order = typeof a[sorted] === "string" ? a[sorted].localeCompare(b[sorted]) : a[sorted] - b[sorted];
    return isUp ? order : -order;
  });
  const most = Math.max(...data.functions.map((each) => each.total), 1e-9);
  const shown = rows.slice(0, 500).map(([each, number]) => rowOf(COLUMNS.map(([key, , form]) => {
    if (key === "name") return named(each.name, number);
    if (key === "total") return withPart(seconds(each.total), each.total / most);
    const cell = element("td", form(each[key]), key === "failed" && each.failed ? "bad" : "");
    if (key === "failed" && each.errors.length) cell.title = each.errors.join(", ");
    return cell;
  })));
  fill(by("functions"), COLUMNS.map(([, words]) => words), shown);
  by("functions").querySelectorAll("th").forEach((head, place) => {
    const [key, words] = COLUMNS[place];
    const button = element("button", words + (key === sorted ? (isUp ? " ▲" : " ▼") : ""));
    button.onclick = () => {
      isUp = key === sorted ? !isUp : key === "name";
      sorted = key;
      showFunctions();
    };
    head.replaceChildren(button);
    if (key === sorted) head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  });
}
showFunctions();
