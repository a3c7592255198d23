// The frame of the page: the view that the address names, its stream, and the state of the connection.

const $ = (id) => document.getElementById(id);
let current = null; // {view, link}
let isFrozen = false;
const HIDDEN_S = 30;

function route() {
  const [path, words] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return {name: VIEWS[name] ? name : "overview", id: rest.join("/"), words: Object.fromEntries(new URLSearchParams(words || ""))};
}

function tell(state, text) {
  const words = {live: "LIVE", lost: "LOST", refused: "NO ACCESS", frozen: "FROZEN", waiting: "..."};
  $("state").textContent = words[state];
  $("state").className = `badge ${state}`;
  document.body.classList.toggle("stale", state === "lost");
  const isPlain = state === "live" || state === "frozen" || state === "waiting";
  if ($("notice").textContent !== text) $("notice").textContent = text;
  $("notice").hidden = isPlain && !text;
  $("notice").className = `notice ${state}`;
}

function show() {
  const {name, id, words} = route();
  stop();
  const view = VIEWS[name];
  const shown = view.build(id, words);
  document.title = `${shown.title || view.title} - zray`;
  $("view").replaceChildren(el("h2", {text: shown.title || view.title}), shown.element);
  const tab = view.tab || name;
  for (const each of $("tabs").children) each.toggleAttribute("aria-current", each.dataset.tab === tab);
  for (const each of $("tabs").children) if (each.dataset.tab === tab) each.setAttribute("aria-current", "page");
  $("tab-choice").value = tab;
  current = {shown, name};
  start();
}

function start() {
  if (!current || current.link) return;
  tell("waiting", "");
  const {shown, name} = current;
  current.link = new Link(shown.stream || name, shown.words || {}, (model) => {
    const {session} = model.facts || {};
    if (session) heading(session);
    const notes = (model.facts && model.facts.notes) || [];
    tell(isFrozen ? "frozen" : "live", notes.join(" "));
    if (!isFrozen) shown.update(model);
  }, (state, text) => state !== "live" && tell(state, text));
}

function stop() {
  if (current && current.link) current.link.close();
  if (current) current.link = null;
}

function heading(session) {
  $("session").textContent = session.session_name;
  $("session").title = session.address;
}

function freeze() {
  isFrozen = !isFrozen;
  $("freeze").setAttribute("aria-pressed", String(isFrozen));
  $("freeze").textContent = isFrozen ? "Go on" : "Freeze";
  if (!isFrozen && current && current.link && current.link.model.facts) current.shown.update(current.link.model);
  tell(isFrozen ? "frozen" : "live", "");
}

function theme(wanted) {
  if (wanted) document.documentElement.dataset.theme = wanted;
  else delete document.documentElement.dataset.theme;
}

function begin() {
  takeToken();
  try {
    theme(localStorage.getItem("zray-theme"));
  } catch (error) { /* no storage */ }
  for (const [name, view] of Object.entries(VIEWS)) {
    if (view.tab) continue;
    $("tabs").append(link(name, view.title, {"data-tab": name}));
    $("tab-choice").append(el("option", {value: name, text: view.title}));
  }
  $("tab-choice").addEventListener("change", () => { location.hash = `#/${$("tab-choice").value}`; });
  $("freeze").addEventListener("click", freeze);
  $("theme").addEventListener("click", () => {
    const isDark = document.documentElement.dataset.theme === "dark"
      || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    theme(isDark ? "light" : "dark");
    try {
      localStorage.setItem("zray-theme", isDark ? "light" : "dark");
    } catch (error) { /* no storage */ }
    if (current && current.link && current.link.model.facts) current.shown.update(current.link.model);
  });
  $("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
  addEventListener("hashchange", () => { takeToken(); show(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target === document.body) { event.preventDefault(); freeze(); }
  });
  let timer;
  document.addEventListener("visibilitychange", () => { // nobody looks: the server need not ask
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(stop, HIDDEN_S * 1000);
    else start();
  });
  show();
}

begin();
