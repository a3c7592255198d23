"use strict";
/* --- the timeline --- */

async function unpacked(text, Type) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Type(await new Response(stream).arrayBuffer());
}
const view = { begin: 0, end: data.duration };
let columns, waits, bins, firsts, waitFirsts, isAsked = false, picked = -1;
const rowCount = data.rows.length;
/* Rows that have room for a name, if there are not very many. */
const rowHeight = Math.max(rowCount > 80 ? 3 : 14, Math.min(22, Math.floor(540 / Math.max(1, rowCount))));

function firstsOf(rowOf) {
  const found = new Uint32Array(rowCount + 1);
  for (const row of rowOf) found[row + 1]++;
  for (let row = 0; row < rowCount; row++) found[row + 1] += found[row];
  return found;
}
const gutter = () => (window.innerWidth < 700 || rowHeight < 13 ? 0 : 176);

/* The context of a canvas whose pixels are those of the screen. */
function contextOf(canvas, height) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.font = "12px system-ui, sans-serif";
  return [context, width];
}
function draw() {
  isAsked = false;
  drawOverview();
  drawRows();
  drawAxis();
  drawMemory();
}
function redraw() {
  if (!isAsked) {
    isAsked = true;
    requestAnimationFrame(draw);
  }
}

function drawOverview() {
  const [context, width] = contextOf(by("overview"), 58);
  const number = bins.length / data.usage.length, left = gutter(), room = width - left;
  for (let x = 0; x < room; x++) {
    const bin = Math.min(number - 1, Math.floor(x / room * number));
    let y = 58;
    data.usage.forEach(([name], place) => {
      const height = bins[place * number + bin] / 255 * 58;
      context.fillStyle = palette[name];
      context.fillRect(left + x, y - height, 1.5, height);
      y -= height;
    });
  }
  if (left) {
    context.fillStyle = palette.soft;
    context.fillText("cores", 10, 34);
  }
  const a = left + view.begin / data.duration * room, b = left + view.end / data.duration * room;
  if (b - a < room - 1) {
    context.fillStyle = palette.back;
    context.globalAlpha = 0.66;
    context.fillRect(left, 0, a - left, 58);
    context.fillRect(b, 0, width - b, 58);
    context.globalAlpha = 1;
    context.strokeStyle = palette.strong;
    context.lineWidth = 2;
    context.strokeRect(a, 1, Math.max(2, b - a), 56);
  }
}

/* Runs of one row: a run narrower than a pixel shares it with its neighbours, and how full the pixel is shows as strength. */
function drawRow(context, row, left, room, y, height, onlyPath) {
  const scale = room / (view.end - view.begin), unit = data.unit;
  const { begins, lengths, nameOf, outcomes } = columns;
  let pixel = -1, full = 0, longest = 0, colour = 0, bad = false;
  const flush = () => {
    if (pixel < 0) return;
    context.globalAlpha = Math.min(1, 0.3 + 0.7 * full);
    context.fillStyle = bad ? palette.failed : colourOf(colour);
    context.fillRect(left + pixel, y, 1, height);
    pixel = -1;
  };
  for (let place = firstIn(row); place < firsts[row + 1]; place++) {
    const begin = begins[place] * unit, length = lengths[place] * unit;
    if (begin > view.end) break;
    if (begin + length < view.begin) continue;
    const isOnPath = outcomes[place] & 4, isBad = (outcomes[place] & 3) === 1;
    const x = (begin - view.begin) * scale, wide = length * scale;
    if (wide < 1) {
      const at = Math.max(0, Math.floor(x));
      if (at !== pixel) {
        flush();
        pixel = at; full = 0; longest = 0; bad = false;
      }
      full += onlyPath && !isOnPath ? wide * 0.15 : wide;
      bad = bad || isBad;
      if (length >= longest) { longest = length; colour = nameOf[place]; }
      continue;
    }
    flush();
    const from = Math.max(0, x), to = Math.min(room, x + wide);
    context.globalAlpha = onlyPath && !isOnPath ? 0.15 : 1;
    context.fillStyle = isBad ? palette.failed : colourOf(nameOf[place]);
    context.fillRect(left + from, y, Math.max(0.7, to - from - (wide > 4 ? 0.6 : 0)), height);
    if (to - from > 46 && height > 10) {
      context.fillStyle = isBad || nameOf[place] === 5 || nameOf[place] === 4 ? "#ffffff" : "#10151b";
      context.save();
      context.beginPath();
      context.rect(left + from, y, to - from - 4, height);
      context.clip();
      context.fillText((isBad ? "✕ " : "") + data.functions[nameOf[place]].name, left + from + 5, y + height / 2 + 4);
      context.restore();
    }
  }
  flush();
  context.globalAlpha = 1;
}
/* The first run of a row that may be seen: runs of a row hardly overlap, so a few more ahead are enough. */
function firstIn(row) {
  let low = firsts[row], high = firsts[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (columns.begins[middle] * data.unit < view.begin) low = middle + 1;
    else high = middle;
  }
  return Math.max(firsts[row], low - 32);
}
function drawRows() {
  const height = Math.max(1, rowCount) * rowHeight + 2;
  const [context, width] = contextOf(by("rows"), height);
  const left = gutter(), room = width - left, gap = rowHeight > 8 ? 2 : rowHeight > 4 ? 1 : 0;
  const onlyPath = by("only-path").checked, scale = room / (view.end - view.begin);
  for (let row = 0; row < rowCount; row++) {
    const y = row * rowHeight + gap;
    const own = rowHeight - gap * 2 - (rowHeight > 8 ? 3 : 1);
    if (row % 2) {
      context.globalAlpha = 0.6;
      context.fillStyle = palette.card;
      context.fillRect(0, row * rowHeight, width, rowHeight);
      context.globalAlpha = 1;
    }
    drawRow(context, row, left, room, y, own, onlyPath);
    let last = -1;
    context.fillStyle = data.rows[row][2] ? palette.arguments : palette.back;
    context.globalAlpha = 0.75;
    for (let place = waitFirsts[row]; place < waitFirsts[row + 1]; place++) {
      const begin = waits.begins[place] * data.unit, end = begin + waits.lengths[place] * data.unit;
      if (begin > view.end) break;
      const from = Math.max(last, 0, (begin - view.begin) * scale), to = Math.min(room, (end - view.begin) * scale);
      if (to - from < 0.5) continue;
      context.fillRect(left + from, y + own / 3, to - from, Math.max(1, own / 3));
      last = to;
    }
    context.globalAlpha = 1;
    const [name, node] = data.rows[row], [before, nodeBefore] = row ? data.rows[row - 1] : ["", node];
    if (node !== nodeBefore) {
      context.fillStyle = palette.line;
      context.fillRect(0, row * rowHeight - 0.5, width, 1);
    }
    if (left && (name !== before || node !== nodeBefore)) {
      context.fillStyle = palette.soft;
      context.save();
      context.beginPath();
      context.rect(0, row * rowHeight, left - 8, rowHeight);
      context.clip();
      context.fillText(name, 10, row * rowHeight + rowHeight / 2 + 4);
      context.restore();
    }
  }
  context.fillStyle = palette.path;
  for (const [begin, end, row] of data.path.line) {
    const from = Math.max(0, (begin - view.begin) * scale), to = Math.min(room, (end - view.begin) * scale);
    if (to > 0 && from < room) context.fillRect(left + from, (row + 1) * rowHeight - (rowHeight > 8 ? 4 : 2), Math.max(1, to - from), rowHeight > 8 ? 3 : 1.5);
  }
  if (picked >= 0) {
    const from = (columns.begins[picked] * data.unit - view.begin) * scale;
    context.strokeStyle = palette.text;
    context.lineWidth = 1.5;
    context.strokeRect(left + from, columns.rowOf[picked] * rowHeight + 1, Math.max(2, columns.lengths[picked] * data.unit * scale), rowHeight - 2);
  }
}
function drawAxis() {
  const [context, width] = contextOf(by("axis"), 24);
  const left = gutter(), room = width - left, span = view.end - view.begin;
  const wanted = span / Math.max(2, Math.floor(room / 70));
  const size = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => each >= wanted);
  context.fillStyle = palette.soft;
  for (let moment = Math.ceil(view.begin / step) * step; moment <= view.end; moment += step) {
    const x = left + (moment - view.begin) / span * room;
    context.fillRect(x, 0, 1, 5);
    const words = step < 1 && moment >= 1 ? moment.toFixed(Math.max(0, -Math.floor(Math.log10(step)))) + " s" : seconds(moment);
    const wide = context.measureText(words).width;
    context.fillText(words, Math.min(Math.max(left, x - wide / 2), width - wide), 18);
  }
}

/* --- memory, below the same span of time --- */

const LINES = [["used", "in use on the machine", "soft"], ["store", "object store", "busy"], ["disk", "spilled to disk", "ready"]];
const memories = data.memory.slice(0, 16).filter((node) => node.times.length > 1).map((node) => {
  const box = element("div", undefined, "memory");
  const words = element("p");
  const canvas = element("canvas");
  box.append(words, canvas);
  by("memory").append(box);
  return [node, words, canvas];
});
if (!memories.length) {
  by("memory").append(element("p", "Not recorded: ZRAY_RECORD=FILE measures memory each two seconds while the program runs.", "hint"));
}
function drawMemory() {
  for (const [node, words, canvas] of memories) {
    const [context, width] = contextOf(canvas, 96);
    const left = gutter(), room = width - left, span = view.end - view.begin;
    const shown = LINES.filter(([key]) => key !== "disk" || Math.max(...node.disk) > 0);
    const most = 1.08 * Math.max(...node.used, ...node.store, ...node.disk, 1);
    words.replaceChildren("node " + node.node + ": ");
    shown.forEach(([key, name, colour], place) => {
      const mark = element("span", undefined, "swatch");
      mark.style.background = palette[colour];
      words.append(place ? ", " : "", mark, name + " up to " + bytes(Math.max(...node[key])));
    });
    words.append(" of " + bytes(node.total));
    context.fillStyle = palette.card;
    context.fillRect(left, 0, room, 96);
    for (const [key, , colour] of shown) {
      context.beginPath();
      node.times.forEach((moment, place) => {
        const x = left + (moment - view.begin) / span * room, y = 93 - node[key][place] / most * 88;
        if (place) context.lineTo(x, y); else context.moveTo(x, y);
      });
      context.strokeStyle = palette[colour];
      context.lineWidth = 2;
      context.stroke();
    }
    if (left) {
      context.fillStyle = palette.back;
      context.fillRect(0, 0, left, 96);
      context.fillStyle = palette.soft;
      context.fillText(bytes(most), 10, 14);
      context.fillText("0", 10, 92);
    }
  }
}

/* --- moving about --- */

const SHORTEST = Math.max(data.duration / 1e6, 1e-6);
function show(begin, end) {
  const span = Math.min(Math.max(end - begin, SHORTEST), data.duration);
  view.begin = Math.min(Math.max(0, begin), data.duration - span);
  view.end = view.begin + span;
  redraw();
}
function zoom(factor, at = (view.begin + view.end) / 2) {
  show(at - (at - view.begin) * factor, at + (view.end - at) * factor);
}
function move(share) {
  const by_ = (view.end - view.begin) * share;
  show(view.begin + by_, view.end + by_);
}
function momentAt(canvas, x, whole) {
  const box = canvas.getBoundingClientRect(), left = gutter();
  const share = Math.min(1, Math.max(0, (x - box.left - left) / (box.width - left)));
  return whole ? share * data.duration : view.begin + share * (view.end - view.begin);
}
by("in").onclick = () => zoom(0.5);
by("out").onclick = () => zoom(2);
by("all").onclick = () => show(0, data.duration);
by("earlier").onclick = () => move(-0.4);
by("later").onclick = () => move(0.4);
by("only-path").onchange = redraw;
function onKey(event) {
  const acts = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    0: () => show(0, data.duration),
  };
  if (acts[event.key]) {
    acts[event.key]();
    event.preventDefault();
  }
}
function listen() {
  const rows = by("rows"), overview = by("overview");
  for (const canvas of [rows, overview]) canvas.addEventListener("keydown", onKey);
  let grabbed = null;
  overview.onpointerdown = (event) => {
    const at = momentAt(overview, event.clientX, true);
    const isInside = at >= view.begin && at <= view.end && view.end - view.begin < data.duration * 0.999;
    grabbed = { at, begin: view.begin, end: view.end, isInside };
    overview.setPointerCapture(event.pointerId);
  };
  overview.onpointermove = (event) => {
    if (!grabbed) return;
    const at = momentAt(overview, event.clientX, true), shift = at - grabbed.at;
    if (grabbed.isInside) show(grabbed.begin + shift, grabbed.end + shift);
    else if (Math.abs(shift) > data.duration / 300) show(Math.min(at, grabbed.at), Math.max(at, grabbed.at));
  };
  overview.onpointerup = overview.onpointercancel = () => { grabbed = null; };
  overview.ondblclick = () => show(0, data.duration);

  const fingers = new Map();
  let from = null;
  rows.onpointerdown = (event) => {
    fingers.set(event.pointerId, event.clientX);
    from = { x: event.clientX, at: momentAt(rows, event.clientX), begin: view.begin, end: view.end, isTouch: event.pointerType !== "mouse" };
    if (event.pointerType === "mouse") rows.setPointerCapture(event.pointerId);
  };
  rows.onpointermove = (event) => {
    if (!fingers.has(event.pointerId)) {
      showTip(event);
      return;
    }
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event.clientX);
    const now = [...fingers.values()];
    if (now.length === 2) {
      const middle = momentAt(rows, (now[0] + now[1]) / 2);
      zoom(Math.abs(before[0] - before[1]) / Math.max(8, Math.abs(now[0] - now[1])), middle);
    } else if (from && from.isTouch) {
      const share = (from.x - event.clientX) / (rows.clientWidth - gutter()) * (from.end - from.begin);
      show(from.begin + share, from.end + share);
    } else if (from) {
      by("tip").hidden = true;
      redraw();
      requestAnimationFrame(() => drawChoice(from && from.x, event.clientX));
    }
  };
  rows.onpointerup = (event) => {
    fingers.delete(event.pointerId);
    if (from && Math.abs(event.clientX - from.x) > 4) {
      if (!from.isTouch) {
        const at = momentAt(rows, event.clientX);
        show(Math.min(at, from.at), Math.max(at, from.at));
      }
    } else if (from) pick(event);
    from = null;
  };
  rows.onpointercancel = (event) => { fingers.delete(event.pointerId); from = null; redraw(); };
  rows.onpointerleave = () => { by("tip").hidden = true; };
  rows.ondblclick = () => zoom(4);
  rows.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, momentAt(rows, event.clientX));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / 600);
    else return;
    event.preventDefault();
  }, { passive: false });
  window.addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readPalette(); redraw(); });
}
function drawChoice(a, b) {
  if (a === null) return;
  const canvas = by("rows"), context = canvas.getContext("2d"), left = canvas.getBoundingClientRect().left;
  context.fillStyle = palette.strong;
  context.globalAlpha = 0.25;
  context.fillRect(Math.min(a, b) - left, 0, Math.abs(b - a), canvas.clientHeight);
  context.globalAlpha = 1;
}
function runAt(event) {
  const rows = by("rows"), box = rows.getBoundingClientRect();
  const row = Math.floor((event.clientY - box.top) / rowHeight);
  if (row < 0 || row >= rowCount || event.clientX < box.left + gutter()) return [-1, row];
  const at = momentAt(rows, event.clientX), near = 2 * (view.end - view.begin) / rows.clientWidth;
  let low = firsts[row], high = firsts[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (columns.begins[middle] * data.unit <= at + near) low = middle + 1;
    else high = middle;
  }
  for (let place = low - 1; place >= Math.max(firsts[row], low - 64); place--) {
    if ((columns.begins[place] + columns.lengths[place]) * data.unit >= at - near) return [place, row];
  }
  return [-1, row];
}
const OUTCOMES = ["finished", "failed", "cancelled", "running"];
function wordsOf(place) {
  const begin = columns.begins[place] * data.unit, id = columns.ids.subarray(16 * place, 16 * place + 16);
  const hex = [...id].map((each) => each.toString(16).padStart(2, "0")).join("");
  const own = outcomeOf(place);
  return [
    data.functions[columns.nameOf[place]].name + ": " + seconds(columns.lengths[place] * data.unit),
    own + ", from " + seconds(begin) + " to " + seconds(begin + columns.lengths[place] * data.unit) + (columns.outcomes[place] & 4 ? ", on the critical path" : "") + (columns.outcomes[place] >> 3 ? ", retry " + (columns.outcomes[place] >> 3) : ""),
    data.rows[columns.rowOf[place]][0] + ", node " + data.rows[columns.rowOf[place]][1],
    "task " + hex,
  ];
}
const outcomeOf = (place) => OUTCOMES[columns.outcomes[place] & 3];
function showTip(event) {
  const [place, row] = runAt(event), tip = by("tip");
  tip.hidden = event.pointerType !== "mouse" || (place < 0 && !data.rows[row]);
  if (tip.hidden) return;
  tip.textContent = place < 0 ? data.rows[row][0] + ", node " + data.rows[row][1] : wordsOf(place).join("\n");
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, window.innerWidth - box.width - 8)) + "px";
  tip.style.top = (event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
}
function pick(event) {
  const [place] = runAt(event);
  picked = place;
  by("detail").textContent = place < 0 ? "" : wordsOf(place).join(" · ");
  redraw();
}
let palette = {};
function readPalette() {
  const names = ["back", "card", "line", "text", "soft", "strong", "failed", "path", ...data.usage.map(([name]) => name)];
  palette = Object.fromEntries(names.map((name) => [name, css(name)]));
}
async function begin() {
  readPalette();
  bins = await unpacked(data.bins, Uint8Array);
  columns = {
    begins: await unpacked(data.begins, Uint32Array), lengths: await unpacked(data.lengths, Uint32Array),
    rowOf: await unpacked(data.rowOf, Uint16Array), nameOf: await unpacked(data.nameOf, Uint16Array),
    outcomes: await unpacked(data.outcomes, Uint8Array), ids: await unpacked(data.ids, Uint8Array),
  };
  waits = {
    begins: await unpacked(data.waits.begins, Uint32Array), lengths: await unpacked(data.waits.lengths, Uint32Array),
    rowOf: await unpacked(data.waits.rowOf, Uint16Array),
  };
  firsts = firstsOf(columns.rowOf);
  waitFirsts = firstsOf(waits.rowOf);
  by("rows").setAttribute("aria-label", count(data.count) + " runs in " + rowCount + " rows; the table of functions has their sums");
  listen();
  const started = performance.now();
  draw();
  document.documentElement.dataset.drawn = (performance.now() - started).toFixed(1);
}
begin().catch((error) => {
  document.documentElement.dataset.error = String(error);
  by("detail").textContent = "The timeline cannot be drawn by this browser: " + error;
});
