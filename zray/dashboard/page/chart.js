// Curves of a metric, on a canvas with a twin in words.

class Chart {
  constructor() {
    this.canvas = el("canvas", {class: "chart", role: "img"});
    this.legend = el("p", {class: "legend"});
    this.element = el("div", {class: "card"}, this.canvas, this.legend);
    this.curves = [];
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  update(curves, metric, title) {
    this.curves = curves;
    this.metric = metric;
    this.canvas.setAttribute("aria-label", `${title}: ${curves.length} curves`);
    this.legend.replaceChildren(...curves.map((curve) => {
      const last = curve.points[curve.points.length - 1][1];
      return el("span", {class: "legend-item"}, nameWithColour(curve.trial, trialName(curve.trial)), el("span", {class: "soft", text: number(last)}));
    }));
    this.draw();
  }

  draw() {
    const {width, height} = fit(this.canvas);
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const all = this.curves.flatMap((curve) => curve.points);
    if (!all.length || width < 60) return;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of all) {
      x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y);
    }
    if (x0 === x1) x1 = x0 + 1;
    if (y0 === y1) { y0 -= Math.abs(y0) / 2 || 1; y1 += Math.abs(y1) / 2 || 1; }
    const box = {left: 64, right: width - 12, top: 22, bottom: height - 24};
    const px = (x) => box.left + (x - x0) / (x1 - x0) * (box.right - box.left);
    const py = (y) => box.bottom - (y - y0) / (y1 - y0) * (box.bottom - box.top);
    context.font = font(12);
    context.fillStyle = css("--soft");
    context.strokeStyle = css("--line");
    context.lineWidth = 1;
    for (const y of ticks(y0, y1, 5)) {
      context.textAlign = "right";
      context.fillText(number(y), box.left - 8, py(y) + 4);
      context.beginPath();
      context.moveTo(box.left, py(y));
      context.lineTo(box.right, py(y));
      context.stroke();
    }
    context.textAlign = "center";
    for (const x of ticks(x0, x1, width < 500 ? 4 : 8)) {
      if (Number.isInteger(x)) context.fillText(count(x), px(x), height - 8);
    }
    context.textAlign = "left";
    context.fillText(`${this.metric} by iteration`, 8, 13);
    context.lineJoin = "round";
    for (const curve of [...this.curves].reverse()) {
      context.strokeStyle = context.fillStyle = colourOf(curve.trial);
      context.lineWidth = 1.8;
      context.beginPath();
      curve.points.forEach(([x, y], place) => (place ? context.lineTo(px(x), py(y)) : context.moveTo(px(x), py(y))));
      context.stroke();
      const [x, y] = curve.points[curve.points.length - 1];
      context.beginPath();
      context.arc(px(x), py(y), 2.5, 0, 7);
      context.fill();
    }
  }
}

// Round numbers between two others, about so many.
function ticks(least, most, about) {
  const raw = (most - least) / about;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => each >= raw);
  const found = [];
  for (let place = Math.ceil(least / step); place * step <= most; place += 1) found.push(Number((place * step).toPrecision(12)));
  return found;
}

const font = (size) => `${size}px "DejaVu Sans", system-ui, sans-serif`;

// Give a canvas the pixels of the screen; width and height are in those of the page.
function fit(canvas) {
  const {clientWidth: width, clientHeight: height} = canvas;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  return {width, height};
}
