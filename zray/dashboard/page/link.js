// The stream of a view: one request that stays open, read piece by piece, since EventSource sends no headers.

const TOKEN = "zray-token";
const PATIENCE_S = 15; // without a sign of life, for a server that says something every 10 s
const RETRY_S = [1, 2, 4, 8, 15];

function takeToken() {
  const found = /^#token=([\w-]+)/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(TOKEN, found[1]);
  history.replaceState(null, "", `${location.pathname}#/overview`);
}

const headers = () => ({Authorization: `Bearer ${sessionStorage.getItem(TOKEN) || ""}`});

async function ask(path, words, signal) {
  const answer = await fetch(`${path}${query(words || {})}`, {headers: headers(), signal});
  if (answer.ok) return answer.json();
  let text = await answer.text();
  try {
    text = JSON.parse(text).msg;
  } catch (error) { /* a sentence */ }
  throw Object.assign(new Error(text.trim()), {status: answer.status});
}

// What a view has been sent: facts, and tables of rows by key.
class Model {
  constructor() {
    this.facts = null;
    this.tables = {};
  }

  take(kind, data) {
    if (kind === "snapshot") this.tables = {};
    if (data.facts) this.facts = data.facts;
    for (const [name, table] of Object.entries(data.tables || {})) {
      const known = this.tables[name] || (this.tables[name] = {rows: new Map(), total: 0});
      for (const key of table.gone) known.rows.delete(key);
      for (const row of table.rows) known.rows.set(String(row[table.key]), row);
      known.total = table.total;
    }
  }
}

class Link {
  // shown(model): something has changed.  told(state, text): live, lost, over or refused.
  constructor(view, words, shown, told) {
    Object.assign(this, {view, words, shown, told, tries: 0, isClosed: false, heard: 0});
    this.model = new Model();
    this.run();
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    clearInterval(this.watch);
    if (this.abort) this.abort.abort();
  }

  async run() {
    const abort = this.abort = new AbortController();
    this.heard = Date.now();
    clearInterval(this.watch);
    this.watch = setInterval(() => {
      if (Date.now() - this.heard > PATIENCE_S * 1000) abort.abort();
    }, 1000);
    let reason = "no answer";
    try {
      const path = `/z/stream${query({view: this.view, ...this.words})}`;
      const answer = await fetch(path, {headers: headers(), signal: abort.signal});
      if (answer.status === 401 || answer.status === 403) {
        this.told("refused", await answer.text());
        this.close();
        return;
      }
      if (!answer.ok) throw new Error(await answer.text());
      reason = await this.read(answer.body.getReader()) || reason;
    } catch (error) {
      if (error.name !== "AbortError" && error.name !== "TypeError") reason = error.message;
    }
    if (this.isClosed) return;
    const seconds = RETRY_S[Math.min(this.tries, RETRY_S.length - 1)];
    this.tries += 1;
    this.told("lost", `Lost connection to the dashboard (${reason}). Shown is what was known at ${clock(this.heard / 1000)}; next try in ${seconds} s.`);
    this.timer = setTimeout(() => this.run(), seconds * 1000 * (0.8 + 0.4 * Math.random()));
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let text = "", reason = "";
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return reason;
      this.heard = Date.now();
      text += decoder.decode(value, {stream: true});
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) reason = this.event(part) || reason;
    }
  }

  event(part) {
    const fields = {};
    for (const line of part.split("\n")) {
      const place = line.indexOf(": ");
      if (place > 0) fields[line.slice(0, place)] = line.slice(place + 2);
    }
    if (!fields.event || this.isClosed) return "";
    const data = JSON.parse(fields.data);
    if (fields.event === "bye") return data.reason;
    if (fields.event === "lost") {
      this.told("lost", `Lost connection to the session: ${data.reason} Shown is what was known at ${clock(this.heard / 1000)}.`);
      return "";
    }
    this.tries = 0;
    this.model.take(fields.event, data);
    this.model.time = data.t;
    this.model.period = data.period;
    this.told("live", "");
    this.shown(this.model);
    return "";
  }
}
