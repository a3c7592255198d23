// Tables: sorted here, filtered by the server; 200 rows are shown, more on demand.  On a phone each row is a card.

const STEP = 200;

class Table {
  // columns: {key, title, cell(row), value(row), num, wide}: a wide column is left out on a phone.
  // options: sort, isDown, empty, what (of the rows, in words), wanted(row).
  constructor(columns, options) {
    Object.assign(this, {columns, options, sort: options.sort || null, isDown: Boolean(options.isDown), most: STEP});
    this.shown = new Map();
    this.heads = columns.map((column) => this.head(column));
    this.body = el("tbody");
    this.table = el("table", {"aria-label": options.what}, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.note = el("p", {class: "note"});
    this.more = el("button", {type: "button", class: "small", text: `${STEP} more`, onclick: () => {
      this.most += STEP;
      this.update();
    }});
    this.empty = el("p", {class: "empty", text: options.empty});
    this.element = el("div", {class: "table"}, this.empty, this.table, this.note, this.more);
    for (const each of this.element.children) each.hidden = true; // nothing is known yet
    this.rows = new Map();
    this.total = 0;
  }

  head(column) {
    const button = el("button", {type: "button", text: column.title, onclick: () => {
      this.isDown = this.sort === column.key ? !this.isDown : Boolean(column.num);
      this.sort = column.key;
      this.update();
    }});
    return el("th", {scope: "col", class: this.kind(column)}, button);
  }

  kind(column) {
    return [column.num && "num", column.wide && "wide", column.main && "main"].filter(Boolean).join(" ") || null;
  }

  take(table) {
    this.rows = table ? table.rows : new Map();
    this.total = table ? table.total : 0;
    this.update();
  }

  sorted() {
    const rows = [...this.rows.entries()];
    const column = this.columns.find((each) => each.key === this.sort);
    if (!column) return rows;
    const value = column.value || ((row) => row[column.key]);
    const sign = this.isDown ? -1 : 1;
    const values = rows.map(([, row]) => value(row));
    const order = rows.map((_, place) => place).sort((a, b) => {
      const [x, y] = [values[a], values[b]];
      const [noX, noY] = [x === null || x === undefined, y === null || y === undefined];
      if (noX || noY) return noX - noY || a - b;
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) || a - b;
    });
    return order.map((place) => rows[place]);
  }

  update() {
    const rows = this.sorted();
    const some = rows.slice(0, this.most);
    const kept = new Map();
    let before = null;
    for (const [key, row] of some) {
      let known = this.shown.get(key);
      if (!known) known = {line: el("tr"), row: null};
      if (known.row !== row) this.fill(known, row);
      kept.set(key, known);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== known.line) this.body.insertBefore(known.line, next);
      before = known.line;
    }
    for (const [key, known] of this.shown) if (!kept.has(key)) known.line.remove();
    this.shown = kept;
    this.columns.forEach((column, place) => {
      const isSorted = column.key === this.sort;
      this.heads[place].setAttribute("aria-sort", isSorted ? (this.isDown ? "descending" : "ascending") : "none");
    });
    this.table.setAttribute("aria-rowcount", String(this.total));
    this.empty.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    this.more.hidden = rows.length <= some.length;
    const cut = some.length < this.total;
    this.note.hidden = !cut;
    this.note.textContent = cut ? `First ${whole.format(some.length)} of ${whole.format(this.total)} ${this.options.what}.` : "";
  }

  fill(known, row) {
    known.row = row;
    const cells = this.columns.map((column) => {
      const found = column.cell ? column.cell(row) : row[column.key];
      const cell = el("td", {class: this.kind(column), "data-label": column.title});
      cell.append(found === null || found === undefined || found === "" ? "-" : found);
      return cell;
    });
    known.line.replaceChildren(...cells);
  }
}
