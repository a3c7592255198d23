// The task stream: a row a worker, a bar a run, colours by function.  Where there are too many runs, the server sums
// them up: the height of a bar is then the busy part of its moment.

const OUTCOMES = ["finished", "failed", "cancelled", "runs"];
const FRAME_MS = 80;
const AXIS = 22;

class Stream {
  constructor(words) {
    this.words = words;
    this.canvas = el("canvas", {class: "stream", role: "img", tabindex: "0"});
    this.tip = el("div", {class: "tip", hidden: true});
    this.legend = el("p", {class: "legend"});
    this.note = el("p", {class: "note"});
    this.live = el("button", {type: "button", class: "small", text: "Back to now", hidden: true, onclick: () => this.fixed(null)});
    const spans = [["10", "10 s"], ["60", "1 min"], ["600", "10 min"], ["all", "All"]].map(([seconds, text]) =>
      el("a", {class: "pill", href: `#/overview${query({seconds})}`, text, "aria-current": (words.seconds || "60") === seconds ? "true" : null}));
    const zoom = (text, title, factor) => el("button", {type: "button", class: "small", text, title, onclick: () => this.zoom(factor)});
    this.element = el("section", {class: "card", "aria-label": "Task stream"},
      el("div", {class: "row"}, el("h3", {text: "Task stream"}), el("span", {class: "space"}), ...spans,
        zoom("+", "Zoom in", 0.5), zoom("−", "Zoom out", 2), this.live),
      el("div", {class: "stream-box"}, this.canvas, this.tip), this.legend, this.note);
    this.plot = document.createElement("canvas");
    this.range = null; // a window that stands still
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.timer = null;
  }

  take(facts) {
    this.latest = facts;
    if (!this.range) this.show(facts);
  }

  show(facts) {
    this.tile = facts;
    this.arrived = performance.now();
    const rows = facts.rows.length;
    this.size = rows <= 12 ? 24 : rows <= 32 ? 16 : rows <= 80 ? 9 : 5;
    this.canvas.style.height = `${Math.max(rows * this.size, 40) + AXIS}px`;
    this.severalNodes = new Set(facts.rows.map((row) => row.node_id)).size > 1;
    this.bins = facts.bins ? Uint8Array.from(atob(facts.bins.data), (letter) => letter.charCodeAt(0)) : null;
    this.legend.replaceChildren(...facts.names.slice(0, 12).map((name) => nameWithColour(name)));
    if (facts.names.length > 12) this.legend.append(el("span", {class: "soft", text: `and ${facts.names.length - 12} more`}));
    const said = [];
    if (facts.bins) said.push(`${count(facts.runs)} runs, summed up: the height of a bar is the busy part of its moment. Zoom in to see each run.`);
    if (facts.by_node) said.push("A row is a node.");
    if (facts.rows_left_out) said.push(`${count(facts.rows_left_out)} more workers are not shown.`);
    if (facts.replaced) said.push(`${count(facts.replaced)} older records were replaced by later ones.`);
    if (facts.left_out) said.push(`Records of ${count(facts.left_out)} processes did not fit.`);
    this.note.textContent = said.join(" ");
    this.note.hidden = !said.length;
    this.canvas.setAttribute("aria-label", `${rows} rows, ${count(facts.runs)} runs in ${duration(facts.end - facts.begin)}` +
      (facts.names.length ? `; most time in ${facts.names[0]}` : ""));
    this.redraw();
    this.animate();
  }

  fixed(range) {
    this.range = range;
    this.live.hidden = !range;
    if (!range) {
      this.show(this.latest);
      return;
    }
    const [begin, end] = range;
    ask("/z/tile", {begin, end, buckets: this.buckets()}).then((found) => {
      if (this.range === range) this.show(found.facts.stream);
    }, (error) => { this.note.textContent = error.message; this.note.hidden = false; });
  }

  zoom(factor) {
    if (!this.tile) return;
    const {begin, end, now} = this.tile;
    const [middle, half] = [(begin + end) / 2, (end - begin) / 2 * factor];
    this.fixed([middle - half, Math.min(middle + half, now)]);
  }

  buckets() {
    return Math.max(Math.min(Math.floor(this.canvas.clientWidth - this.gutter()), 1200), 100);
  }

  gutter() {
    return this.canvas.clientWidth < 560 ? 84 : 190;
  }

  redraw() {
    if (!this.tile || !this.canvas.clientWidth) return;
    const {width, height} = fit(this.canvas);
    const scale = devicePixelRatio || 1;
    const left = this.gutter();
    this.plot.width = Math.max(Math.round((width - left) * scale), 1);
    this.plot.height = Math.max(Math.round((height - AXIS) * scale), 1);
    const context = this.plot.getContext("2d");
    context.scale(scale, scale);
    this.colours = this.tile.names.map(colourOf);
    if (this.bins) this.drawBins(context, width - left);
    else if (this.tile.rects) this.drawRects(context, width - left);
    this.frame();
  }

  drawRects(context, width) {
    const {rects, begin, end} = this.tile;
    const scale = width / (end - begin);
    const high = this.size - (this.size > 8 ? 4 : 1);
    const failed = css("--failed"), edge = css("--card");
    for (let place = 0; place < rects.row.length; place += 1) {
      const x = rects.begin[place] * scale;
      const wide = Math.max((rects.end[place] - rects.begin[place]) * scale, 1);
      const y = rects.row[place] * this.size + (this.size - high) / 2;
      context.fillStyle = this.colours[rects.name[place]];
      context.fillRect(x, y, wide, high);
      if (wide > 4) {
        context.fillStyle = edge;
        context.fillRect(x + wide - 1, y, 1, high);
      }
      if (rects.outcome[place] === 1 || rects.outcome[place] === 2) cross(context, x, y, wide, high, failed);
    }
  }

  drawBins(context, width) {
    const {buckets} = this.tile.bins;
    const wide = width / buckets;
    const high = this.size - (this.size > 8 ? 4 : 1);
    const failed = css("--failed");
    for (let row = 0; row < this.tile.rows.length; row += 1) {
      const bottom = (row + 1) * this.size - (this.size - high) / 2;
      for (let bucket = 0; bucket < buckets; bucket += 1) {
        const place = (row * buckets + bucket) * 3;
        const share = this.bins[place];
        if (!share) continue;
        const tall = Math.max(share / 255 * high, 1);
        context.fillStyle = this.colours[this.bins[place + 1] - 1];
        context.fillRect(bucket * wide, bottom - tall, wide + 0.3, tall);
        if (this.bins[place + 2]) {
          context.fillStyle = failed;
          context.fillRect(bucket * wide, bottom - high, Math.max(wide, 2), Math.max(high / 4, 2));
        }
      }
    }
  }

  // What moves: the plot, shifted by the time since it was drawn, and runs that have not ended.
  frame() {
    const context = this.canvas.getContext("2d");
    const {clientWidth: width, clientHeight: height} = this.canvas;
    const left = this.gutter();
    const {begin, end, rows, rects} = this.tile;
    const scale = (width - left) / (end - begin);
    const shift = this.isMoving() ? (performance.now() - this.arrived) / 1000 * scale : 0;
    context.clearRect(0, 0, width, height);
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, height);
    context.clip();
    context.drawImage(this.plot, left - shift, 0, width - left, height - AXIS);
    if (shift && rects) {
      const high = this.size - (this.size > 8 ? 4 : 1);
      for (let place = rects.row.length - 1; place >= 0 && rects.outcome[place] === 3; place -= 1) {
        context.fillStyle = this.colours[rects.name[place]];
        context.fillRect(width - shift - 1, rects.row[place] * this.size + (this.size - high) / 2, shift + 1, high);
      }
    }
    context.restore();
    this.drawFrame(context, width, height, left, rows);
  }

  drawFrame(context, width, height, left, rows) {
    const soft = css("--soft");
    context.font = font(12);
    context.textAlign = "left";
    context.textBaseline = "middle";
    let before = "", free = 0;
    rows.forEach((row, place) => {
      const isFirst = row.node_id !== before;
      before = row.node_id;
      if (isFirst && place && this.size > 8) {
        context.fillStyle = css("--line");
        context.fillRect(0, place * this.size, width, 1);
      }
      if (this.size < 14 && (place < free || !isFirst)) return;
      free = place + Math.ceil(14 / this.size); // the next row with room for a label
      context.fillStyle = soft;
      context.fillText(clipped(context, this.label(row, left), left - 8), 2, place * this.size + Math.max(this.size, 12) / 2);
    });
    if (!rows.length) {
      context.fillStyle = soft;
      context.fillText("Nothing has run in this time.", left, 20);
    }
    context.textBaseline = "alphabetic";
    context.fillStyle = soft;
    const {begin, end, now} = this.tile;
    const isNow = Math.abs(end - now) < 1e-3;
    const about = width < 560 ? 3 : 8;
    for (const each of ticks(begin - end, 0, about)) {
      const x = left + (each + end - begin) / (end - begin) * (width - left);
      context.fillStyle = css("--line");
      context.fillRect(x, 0, 1, height - AXIS + 4);
      context.fillStyle = soft;
      const text = each === 0 && isNow ? "now" : isNow ? `-${span(-each)}` : clock(end + each) + fraction(end + each, end - begin);
      context.textAlign = x > width - 40 ? "right" : x < left + 20 ? "left" : "center";
      context.fillText(text, x, height - 5);
    }
  }

  label(row, left) {
    const name = row.label + (row.lane === 255 ? " async" : row.lane ? ` [${row.lane + 1}]` : "");
    if (!row.pid || this.size < 14) return `node ${short(row.node_id)}`;
    const node = this.severalNodes ? `${row.node_id.slice(0, 4)} ` : "";
    return left < 100 ? `${node}${row.pid}` : `${node}${name || "worker"} (pid ${row.pid})`;
  }

  isMoving() {
    return !this.range && !isFrozen && this.tile.end - this.tile.begin <= 120 && !matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  animate() {
    clearTimeout(this.timer);
    if (!this.canvas.isConnected || !this.isMoving() || performance.now() - this.arrived > 5000) return;
    this.timer = setTimeout(() => requestAnimationFrame(() => {
      if (!this.canvas.isConnected) return;
      this.frame();
      this.animate();
    }), FRAME_MS);
  }

  // The run below the pointer.
  at(event) {
    if (!this.tile || !this.tile.rects) return null;
    const box = this.canvas.getBoundingClientRect();
    const left = this.gutter();
    const {rects, begin, end} = this.tile;
    const scale = (box.width - left) / (end - begin);
    const shift = this.isMoving() ? (performance.now() - this.arrived) / 1000 : 0;
    const seconds = (event.clientX - box.left - left) / scale + shift;
    const row = Math.floor((event.clientY - box.top) / this.size);
    let best = null, distance = 4 / scale;
    for (let place = 0; place < rects.row.length; place += 1) {
      if (rects.row[place] !== row) continue;
      const away = Math.max(rects.begin[place] - seconds, seconds - rects.end[place], 0);
      if (away < distance || (away === 0 && distance > 0)) [best, distance] = [place, away];
    }
    return best;
  }

  listen() {
    let from = null;
    const x = (event) => event.clientX - this.canvas.getBoundingClientRect().left;
    this.canvas.addEventListener("pointermove", (event) => {
      const place = this.at(event);
      this.tip.hidden = place === null;
      this.canvas.style.cursor = place === null ? "crosshair" : "pointer";
      if (place === null) return;
      const {rects, names} = this.tile;
      this.tip.textContent = `${names[rects.name[place]]}: ${duration(rects.end[place] - rects.begin[place])}, ${OUTCOMES[rects.outcome[place]]}`;
      this.tip.style.left = `${Math.min(x(event) + 12, Math.max(this.canvas.clientWidth - 220, 0))}px`;
      this.tip.style.top = `${event.clientY - this.canvas.getBoundingClientRect().top + 16}px`;
    });
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("pointerdown", (event) => { from = event.pointerType === "touch" ? null : x(event); });
    this.canvas.addEventListener("pointerup", (event) => {
      const [one, two] = [from, x(event)];
      from = null;
      if (one !== null && Math.abs(two - one) > 8) {
        const left = this.gutter(), {begin, end} = this.tile;
        const time = (place) => begin + Math.max(place - left, 0) / (this.canvas.clientWidth - left) * (end - begin);
        this.fixed([time(Math.min(one, two)), time(Math.max(one, two))]);
        return;
      }
      const place = this.at(event);
      if (place !== null) location.hash = `#/task/${this.tile.rects.task_id[place]}`;
    });
    this.canvas.addEventListener("dblclick", () => this.fixed(null));
  }
}

function cross(context, x, y, wide, high, colour) {
  context.strokeStyle = context.fillStyle = colour;
  if (wide < 8) {
    context.fillRect(x, y, wide, Math.max(high / 3, 2));
    return;
  }
  context.lineWidth = 2;
  const size = Math.min(wide, high) - 4;
  const [left, top] = [x + 3, y + (high - size) / 2];
  context.strokeRect(x + 1, y + 1, wide - 2, high - 2);
  context.beginPath();
  context.moveTo(left, top);
  context.lineTo(left + size, top + size);
  context.moveTo(left + size, top);
  context.lineTo(left, top + size);
  context.stroke();
}

function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let size = text.length;
  while (size > 1 && context.measureText(`${text.slice(0, size)}…`).width > width) size -= 1;
  return `${text.slice(0, size)}…`;
}

// A time on the axis.
function span(seconds) {
  if (seconds < 1) return `${number(seconds * 1000)} ms`;
  if (seconds < 60) return `${number(seconds)} s`;
  return seconds < 3600 ? `${number(seconds / 60, 3)} min` : `${number(seconds / 3600, 3)} h`;
}

const fraction = (seconds, span) => (span < 10 ? (seconds % 1).toFixed(span < 0.1 ? 4 : 2).slice(1) : "");
