// Elements, numbers, ids and times.  Text of programs reaches the page through textContent only.

function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function link(target, text, attributes) {
  return el("a", {href: `#/${target}`, text, ...attributes});
}

const query = (words) => {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") found.append(name, each);
    }
  }
  const text = found.toString();
  return text ? `?${text}` : "";
};

const whole = new Intl.NumberFormat("en-US");

function count(number) {
  if (number === null || number === undefined) return "-";
  if (Math.abs(number) < 1e5) return whole.format(Math.round(number * 100) / 100);
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(number) >= size) return `${(number / size).toPrecision(3)} ${unit}`;
  }
}

function bytes(number) {
  if (number === null || number === undefined) return "-";
  let unit = 0;
  for (; number >= 1024 && unit < 4; unit += 1) number /= 1024;
  return unit ? `${number.toPrecision(number < 1000 ? 3 : 4)} ${["", "KiB", "MiB", "GiB", "TiB"][unit]}` : `${number} B`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "-";
  if (seconds < 1e-3) return `${(seconds * 1e6).toPrecision(3)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds < 60) return `${seconds.toPrecision(seconds < 10 ? 2 : 3)} s`;
  const minutes = Math.floor(seconds / 60);
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  if (minutes < 60) return `${minutes}m ${two(seconds % 60)}s`;
  if (minutes < 60 * 24) return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  return `${Math.floor(minutes / 1440)}d ${Math.floor((minutes % 1440) / 60)}h`;
}

function clock(seconds) {
  const time = new Date(seconds * 1000);
  const text = time.toLocaleTimeString("en-GB");
  return time.toDateString() === new Date().toDateString() ? text : `${time.toISOString().slice(0, 10)} ${text}`;
}

const short = (id) => (id ? String(id).slice(0, 8) : "-");
const number = (value, digits = 4) =>
  typeof value === "number" ? String(Number(value.toPrecision(digits))) : value === null || value === undefined ? "-" : String(value);

const STATES = {
  PENDING_ARGS_AVAIL: "input", PENDING_NODE_ASSIGNMENT: "resource", PENDING_OBJ_STORE_MEM_AVAIL: "fetching",
  PENDING_ARGS_FETCH: "fetching", PENDING_ACTOR_TASK_ARGS_FETCH: "fetching", GETTING_AND_PINNING_ARGS: "fetching",
  PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY: "order", SUBMITTED_TO_WORKER: "at worker", RUNNING: "running",
  RUNNING_IN_RAY_GET: "in get", RUNNING_IN_RAY_WAIT: "in wait", FINISHED: "finished", FAILED: "failed", NIL: "-",
};
const MARKS = {waiting: "o", running: "#", failed: "X", finished: "+", ok: "+", bad: "X"};

function groupOf(state) {
  if (state === "FINISHED") return "finished";
  if (state === "FAILED") return "failed";
  return String(state).startsWith("RUNNING") ? "running" : "waiting";
}

// A state as a mark, a colour and a word: the colour alone says nothing.
function chip(kind, word, title) {
  return el("span", {class: `chip ${kind}`, title}, el("span", {class: "mark", "aria-hidden": "true", text: MARKS[kind] || "."}), word);
}

const taskChip = (state) => chip(groupOf(state), STATES[state] || state.toLowerCase(), state);
function lifeChip(state) {
  const kind = {ALIVE: "ok", CREATED: "ok", SUCCEEDED: "finished", RUNNING: "running", DEAD: "bad", FAILED: "bad"}[state];
  return chip(kind || "waiting", state.toLowerCase().replaceAll("_", " "), state);
}

// isScarce: whether a full bar is a reason to look.
function bar(used, total, text, isScarce) {
  const share = total ? Math.min(Math.max(used / total, 0), 1) : 0;
  const fill = el("span", {class: isScarce && share > 0.9 ? "fill full" : "fill"});
  fill.style.width = `${(share * 100).toFixed(1)}%`;
  return el("span", {class: "meter", title: text}, el("span", {class: "bar", "aria-hidden": "true"}, fill), el("span", {text}));
}

// Colours of functions: a name keeps its colour on all views.  The name chooses, unless another one has the colour.
const PALETTE = ["#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#b8a90b", "#7b61c9", "#5f9e3f", "#8c6d4f", "#3aa6a0", "#e0629a"];
const colours = new Map();
function colourOf(name) {
  let found = colours.get(name);
  if (found) return found;
  let hash = 2166136261;
  for (let place = 0; place < name.length; place += 1) hash = Math.imul(hash ^ name.charCodeAt(place), 16777619);
  const first = (hash >>> 0) % PALETTE.length;
  const taken = new Set(colours.values());
  const free = PALETTE.map((_, place) => PALETTE[(first + place) % PALETTE.length]).find((each) => !taken.has(each));
  found = free || PALETTE[first];
  if (colours.size < 5000) colours.set(name, found);
  return found;
}

function nameWithColour(name, shown) {
  const dot = el("span", {class: "dot", "aria-hidden": "true"});
  dot.style.background = colourOf(name);
  return el("span", {class: "name"}, dot, el("span", {text: shown || name || "(unnamed)", title: name}));
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Text for `zray ...` in a terminal, and a button that copies it.
function command(text) {
  const button = el("button", {type: "button", class: "small", text: "Copy"});
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch (error) {
      getSelection().selectAllChildren(button.previousSibling);
    }
  });
  return el("span", {class: "command"}, el("code", {text}), button);
}
