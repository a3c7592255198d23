// The views.  build(id, words) returns {element, update(model), stream, words, title}.

const VIEWS = {};

const used = (row, name) => (row.resources && row.resources[name] ? row.resources[name][0] : null);
function amount(row, name) {
  const found = row.resources && row.resources[name];
  return found ? bar(found[0], found[1], `${number(found[0])} of ${number(found[1])}`) : "-";
}
const part = (some, all) => (all ? bar(some, all, `${bytes(some)} of ${bytes(all)}`, true) : "-");
const nodeLink = (id) => (id ? link(`node/${id}`, short(id), {title: id}) : "-");
const actorLink = (id) => (id ? link(`actor/${id}`, short(id), {title: id}) : "-");

const NODE_COLUMNS = [
  {key: "node_id", title: "Node", main: true, cell: (row) => el("span", {}, nodeLink(row.node_id), row.is_head_node ? " head" : "")},
  {key: "state", title: "State", cell: (row) => lifeChip(row.state)},
  {key: "cpu", title: "CPUs held", value: (row) => used(row, "CPU"), cell: (row) => amount(row, "CPU")},
  {key: "cpu_percent", title: "Processors", value: (row) => row.cpu_percent ?? null,
    cell: (row) => row.cpu_percent === undefined ? "-" : bar(row.cpu_percent, 100, `${row.cpu_percent.toFixed(0)} %`)},
  {key: "mem_used_bytes", title: "Memory", cell: (row) => part(row.mem_used_bytes, row.mem_total_bytes)},
  {key: "store_bytes", title: "Store", cell: (row) => part(row.store_bytes, row.store_capacity_bytes)},
  {key: "disk_bytes", title: "Spilled", num: true, wide: true, cell: (row) => bytes(row.disk_bytes)},
  {key: "workers", title: "Workers", num: true, cell: (row) => count(row.workers)},
  {key: "tasks", title: "Open tasks", num: true, cell: (row) => count(row.tasks)},
  {key: "tasks_ended", title: "Ended", num: true, wide: true, cell: (row) => count(row.tasks_ended)},
  {key: "node_ip", title: "Address", wide: true},
  {key: "state_message", title: "Message", wide: true},
];

const FUNCTION_COLUMNS = [
  {key: "name", title: "Function", main: true, cell: (row) => el("a", {href: `#/tasks${query({name: row.name})}`}, nameWithColour(row.name))},
  {key: "running", title: "Run", num: true, cell: (row) => count(row.running)},
  {key: "waiting", title: "Wait", num: true, cell: (row) => count(row.waiting)},
  {key: "finished", title: "Finished", num: true, cell: (row) => count(row.finished)},
  {key: "failed", title: "Failed", num: true, cell: (row) => row.failed
    ? el("a", {class: "bad", href: `#/tasks${query({name: row.name, group: "failed"})}`, text: count(row.failed)}) : "0"},
  {key: "p50", title: "Median", num: true, cell: (row) => duration(row.p50)},
  {key: "p99", title: "99 %", num: true, cell: (row) => duration(row.p99)},
  {key: "longest", title: "Longest", num: true, wide: true, cell: (row) => duration(row.longest)},
  {key: "total", title: "Total", num: true, cell: (row) => duration(row.total)},
];

const TASK_COLUMNS = [
  {key: "task_id", title: "Task", cell: (row) => link(`task/${row.task_id}`, short(row.task_id) + "…" + row.task_id.slice(-4), {title: row.task_id})},
  {key: "name", title: "Function", main: true, cell: (row) => nameWithColour(row.name)},
  {key: "state", title: "State", cell: (row) => taskChip(row.state)},
  {key: "node_id", title: "Node", cell: (row) => nodeLink(row.node_id)},
  {key: "worker_pid", title: "Pid", num: true, wide: true, cell: (row) => row.worker_pid ? String(row.worker_pid) : "-"},
  {key: "actor_id", title: "Actor", wide: true, cell: (row) => actorLink(row.actor_id)},
  {key: "begin", title: "Began", num: true, cell: (row) => row.begin ? clock(row.begin) : "-"},
  {key: "seconds", title: "Took", num: true, cell: (row) => duration(row.seconds)},
  {key: "attempt_number", title: "Retries", num: true, wide: true, cell: (row) => count(row.attempt_number)},
  {key: "error_type", title: "Error", wide: true},
];

const tableOf = (columns, what, empty, more) => new Table(columns, {what, empty, ...more});
const taskTable = (empty) => tableOf(TASK_COLUMNS, "tasks", empty || "No task.");

function tile(what, much, more, target, kind) {
  return el(target ? "a" : "div", {class: `tile ${kind || ""}`, href: target && `#/${target}`},
    el("div", {class: "what", text: what}), el("div", {class: "much", text: much}), el("div", {class: "more", text: more || " "}));
}

VIEWS.overview = {title: "Overview", build(id, words) {
  const tiles = el("div", {class: "tiles"});
  const stream = new Stream(words);
  const table = tableOf(FUNCTION_COLUMNS, "functions", "No task yet.");
  const note = el("p", {class: "note"});
  let before = null, rate = null;
  const width = Math.max(Math.min($("main").clientWidth - 200, 1200), 150);
  return {
    element: el("div", {}, tiles, stream.element, el("h3", {text: "Functions"}), note, table.element),
    words: {seconds: words.seconds || "60", buckets: width},
    update(model) {
      const {session, tasks} = model.facts;
      if (before && model.time > before.time) rate = Math.max((session.tasks_ended - before.ended) / (model.time - before.time), 0);
      before = {time: model.time, ended: session.tasks_ended};
      const waits = tasks.waiting && !tasks.running ? "nothing runs: why?" : tasks.waiting ? "why?" : "";
      tiles.replaceChildren(
        tile("Running", count(tasks.running), `${count(session.workers)} workers`, "tasks?group=running"),
        tile("Waiting", count(tasks.waiting), waits, tasks.waiting ? "why" : null),
        tile("Failed", count(tasks.failed), tasks.failed ? "remembered" : "", tasks.failed ? "tasks?group=failed" : null, tasks.failed && "bad"),
        tile("Ended", count(session.tasks_ended), rate === null ? "" : `${number(rate, 3)} a second`, "tasks?group=finished"),
        tile("CPUs held", `${number(session.cpus_used)} of ${number(session.cpus)}`, `${count(session.nodes)} node${session.nodes === 1 ? "" : "s"}` +
          (session.nodes_dead ? `, ${session.nodes_dead} dead` : ""), "nodes"),
        tile("Memory", bytes(session.mem_used_bytes), `of ${bytes(session.mem_total_bytes)}`, "nodes"),
        tile("Object store", bytes(session.store_bytes), `of ${bytes(session.store_capacity_bytes)}` +
          (session.disk_bytes ? `, ${bytes(session.disk_bytes)} on disk` : ""), "objects"),
      );
      stream.take(model.facts.stream);
      table.take(model.tables.functions);
      let known = 0;
      for (const row of table.rows.values()) known += row.running + row.waiting + row.finished + row.failed;
      tellOfCut(note, "Counted are", known, session, "as far as nodes and processes remember them.");
    },
  };
}};

// Say that a list has a part of the tasks.  Constructors of actors are counted as ended, and are no tasks of lists.
function tellOfCut(note, words, known, session, which) {
  const all = session.tasks + session.tasks_ended;
  note.hidden = all - known <= Math.max(20, all / 100);
  note.textContent = note.hidden ? "" : `${words} ${whole.format(known)} of ${whole.format(all)} tasks: ${which}`;
}

VIEWS.nodes = {title: "Nodes", build() {
  const table = tableOf(NODE_COLUMNS, "nodes", "No node.");
  return {element: table.element, update: (model) => table.take(model.tables.nodes)};
}};

// A form whose fields are words of the address, so that a link leads to the same rows.
function filterForm(view, words, fields) {
  const form = el("form", {class: "row filters", onsubmit: (event) => { event.preventDefault(); go(); }});
  const inputs = {};
  const go = () => {
    const wanted = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
    location.hash = `#/${view}${query({...words, ...wanted})}`;
  };
  for (const [name, title, choices] of fields) {
    const input = choices ? el("select", {onchange: go}, ...choices.map(([value, text]) => el("option", {value, text})))
      : el("input", {type: "search", onchange: go, size: 16});
    input.value = words[name] || "";
    inputs[name] = input;
    form.append(el("label", {}, el("span", {class: "soft", text: title}), " ", input));
  }
  if (fields.some(([name]) => words[name])) form.append(el("a", {class: "pill", href: `#/${view}`, text: "Clear"}));
  return form;
}

function filtersOf(words, signs) {
  const found = Object.entries(signs).filter(([name]) => words[name]);
  return {filter_keys: found.map(([, [key]]) => key), filter_predicates: found.map(([, [, sign]]) => sign), filter_values: found.map(([name]) => words[name])};
}

const GROUPS = [["", "all"], ["waiting", "waiting"], ["running", "running"], ["failed", "failed"], ["finished", "finished"]];

VIEWS.tasks = {title: "Tasks", build(id, words) {
  const functions = tableOf(FUNCTION_COLUMNS, "functions", "No task yet.");
  const tasks = taskTable(Object.values(words).some(Boolean) ? "No task matches." : "No task yet.");
  const note = el("p", {class: "note"});
  const form = filterForm("tasks", words, [["group", "State", GROUPS], ["name", "Function contains"], ["node", "Node"], ["error", "Error contains"], ["job", "Job"]]);
  return {
    element: el("div", {}, form, el("h3", {text: "By function"}), functions.element, el("h3", {text: "One by one"}), note, tasks.element),
    words: {group: words.group, ...filtersOf(words, {name: ["name", "~"], node: ["node_id", "~"], error: ["error_type", "~"], job: ["job_id", "~"]})},
    update(model) {
      functions.take(model.tables.functions);
      tasks.take(model.tables.tasks);
      const {session, remembered} = model.facts;
      tellOfCut(note, "The nodes remember", remembered, session,
        "those that have not ended, and of each node the last 5,000 that finished and 1,000 that failed.");
    },
  };
}};

VIEWS.actors = {title: "Actors", build(id, words) {
  const table = tableOf([
    {key: "actor_id", title: "Actor", cell: (row) => actorLink(row.actor_id)},
    {key: "class_name", title: "Class", main: true, cell: (row) => nameWithColour(row.class_name)},
    {key: "name", title: "Name"},
    {key: "state", title: "State", cell: (row) => lifeChip(row.state)},
    {key: "running", title: "Running calls", num: true, cell: (row) => count(row.running)},
    {key: "waiting", title: "Queue", num: true, cell: (row) => count(row.waiting)},
    {key: "node_id", title: "Node", cell: (row) => nodeLink(row.node_id)},
    {key: "pid", title: "Pid", num: true, cell: (row) => row.pid ? String(row.pid) : "-"},
    {key: "ray_namespace", title: "Namespace", wide: true, cell: (row) => short(row.ray_namespace)},
    {key: "job_id", title: "Job", wide: true, cell: (row) => short(row.job_id)},
  ], "actors", words.class || words.state ? "No actor matches." : "No actor.");
  const states = ["", "ALIVE", "PENDING_CREATION", "RESTARTING", "DEAD"].map((each) => [each, each.toLowerCase().replaceAll("_", " ") || "all"]);
  return {
    element: el("div", {}, filterForm("actors", words, [["state", "State", states], ["class", "Class contains"]]), table.element),
    words: filtersOf(words, {state: ["state", "="], class: ["class_name", "~"]}),
    update: (model) => table.take(model.tables.actors),
  };
}};

const PLACES = {MEMORY: "memory", DISK: "disk", MESSAGE: "message", COMING: "on its way", PENDING: "not made"};

function holders(row) {
  const found = row.references.filter((each) => each.pid).map((each) =>
    `pid ${each.pid} (${each.type === "LOCAL_REFERENCE" ? "ref" : each.has_ref ? "ref, may have arrays" : "arrays or a task"})`);
  return found.join(", ") || (row.references[0].type === "USED_BY_PENDING_TASK" ? "tasks or values" : "other nodes");
}

const OBJECT_COLUMNS = [
  {key: "object_id", title: "Object", cell: (row) => link(`object/${row.object_id}`, short(row.object_id) + "…" + row.object_id.slice(-4), {title: row.object_id})},
  {key: "object_size", title: "Size", num: true, main: true, cell: (row) => row.object_size ? bytes(row.object_size) : "-"},
  {key: "state", title: "Where", cell: (row) => PLACES[row.state] || row.state},
  {key: "call_site", title: "Made", cell: (row) => row.call_site || "small values and copies"},
  {key: "references", title: "Held by", value: holders, cell: holders},
  {key: "node_id", title: "Node", wide: true, cell: (row) => nodeLink(row.node_id)},
];

VIEWS.objects = {title: "Objects", build(id, words) {
  const places = tableOf([
    {key: "call_site", title: "Made", main: true, cell: (row) => row.call_site || "small values and copies"},
    {key: "total_objects", title: "Values", num: true, cell: (row) => count(row.total_objects)},
    {key: "total_size_mb", title: "Size", num: true, cell: (row) => (row.total_size_mb ? bytes(row.total_size_mb * 1e6) : "-")},
    ...Object.entries(PLACES).map(([key, title]) => ({key, title: title[0].toUpperCase() + title.slice(1), num: true, wide: true, cell: (row) => count(row[key] || 0)})),
  ], "places", "No value.");
  const objects = tableOf(OBJECT_COLUMNS, "values", "No value.");
  return {
    element: el("div", {}, el("h3", {text: "By the place that made them"}), places.element, el("h3", {text: "One by one, and who holds them"}),
      filterForm("objects", words, [["made", "Made at (contains)"], ["node", "Node"]]), objects.element),
    words: filtersOf(words, {made: ["call_site", "~"], node: ["node_id", "~"]}),
    update(model) {
      places.take(model.tables.places);
      objects.take(model.tables.objects);
    },
  };
}};

VIEWS.logs = {title: "Logs", build(id, words) {
  const table = tableOf([
    {key: "filename", title: "File", main: true, cell: (row) => link(`log${query({node_id: row.node_id, filename: row.filename})}`, row.filename)},
    {key: "kind", title: "Kind", cell: (row) => ({worker_out: "output of a worker", worker_err: "standard error of a worker", raylet: "node", other: "other"})[row.kind] || row.kind},
    {key: "node_id", title: "Node", cell: (row) => nodeLink(row.node_id)},
  ], "files", "No output. What tasks print appears here.");
  const note = el("p", {class: "note"});
  return {
    element: el("div", {}, filterForm("logs", words, [["file", "File contains"], ["node", "Node"]]), note, table.element),
    words: filtersOf(words, {file: ["filename", "~"], node: ["node_id", "~"]}),
    update(model) {
      note.textContent = model.facts.elsewhere.join(" ");
      note.hidden = !model.facts.elsewhere.length;
      table.take(model.tables.logs);
    },
  };
}};

VIEWS.jobs = {title: "Jobs", build() {
  const table = tableOf([
    {key: "job_id", title: "Job", main: true, cell: (row) => row.submission_id || link(`tasks${query({job: row.job_id})}`, short(row.job_id), {title: row.job_id})},
    {key: "status", title: "Status", cell: (row) => lifeChip(row.status)},
    {key: "type", title: "Kind", cell: (row) => (row.type === "DRIVER" ? "program" : "submitted")},
    {key: "entrypoint", title: "Command", cell: (row) => row.entrypoint ? el("code", {text: row.entrypoint}) : `process ${row.pid}`},
    {key: "tasks", title: "Open tasks", num: true, cell: (row) => count(row.tasks)},
    {key: "start_time", title: "Began", num: true, cell: (row) => row.start_time ? clock(row.start_time / 1000) : "-"},
    {key: "took", title: "Took", num: true, value: (row) => row.end_time && row.end_time - row.start_time, cell: (row) => row.end_time ? duration((row.end_time - row.start_time) / 1000) : "-"},
    {key: "node_id", title: "Node", wide: true, cell: (row) => nodeLink(row.node_id)},
    {key: "message", title: "Message", wide: true},
  ], "programs", "No program.");
  const how = el("p", {class: "note"}, "A program is submitted with ", el("code", {text: "zray job submit -- python program.py"}),
    "; its output: ", el("code", {text: "zray job logs ID"}), ".");
  return {element: el("div", {}, table.element, how), update: (model) => table.take(model.tables.jobs)};
}};

VIEWS.groups = {title: "Groups", build() {
  const table = tableOf([
    {key: "placement_group_id", title: "Placement group", main: true, cell: (row) => el("span", {title: row.placement_group_id, text: short(row.placement_group_id)})},
    {key: "name", title: "Name"},
    {key: "state", title: "State", cell: (row) => lifeChip(row.state)},
    {key: "strategy", title: "Strategy"},
    {key: "bundles", title: "Bundles", value: (row) => Object.keys(row.bundles).length, cell: (row) => Object.entries(row.bundles).map(([place, bundle]) =>
      `${place}: ${Object.entries(bundle).map(([name, value]) => `${number(value)} ${name}`).join(", ")}`).join("; ")},
    {key: "nodes", title: "On nodes", cell: (row) => el("span", {}, ...[...new Set(Object.values(row.bundles_to_node_id || {}))].filter(Boolean).flatMap((id) => [nodeLink(id), " "]))},
  ], "placement groups", "No placement group.");
  return {element: table.element, update: (model) => table.take(model.tables.groups)};
}};

// Names of trials end in the time of their start, which the others of the experiment have too.
const trialName = (name) => name.replace(/_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d.*$/, "");

VIEWS.trials = {title: "Trials", build(id, words) {
  const chart = new Chart();
  const place = el("p", {class: "note"});
  const form = el("div", {class: "row filters"});
  const table = tableOf([
    {key: "trial", title: "Trial", main: true, cell: (row) => nameWithColour(row.trial, trialName(row.trial))},
    {key: "state", title: "State", cell: (row) => chip({ERROR: "failed", TERMINATED: "finished"}[row.state] || "running", row.state === "REPORTED" ? "reports" : row.state.toLowerCase())},
    {key: "best", title: "Best", num: true, cell: (row) => number(row.best)},
    {key: "last", title: "Last", num: true, cell: (row) => number(row.last)},
    {key: "iterations", title: "Results", num: true, cell: (row) => count(row.iterations)},
    {key: "seconds", title: "Took", num: true, cell: (row) => duration(row.seconds)},
    {key: "changed", title: "Last result", num: true, cell: (row) => clock(row.changed)},
    {key: "config", title: "Parameters", wide: true, cell: (row) => el("code", {class: "config", text: row.config})},
  ], "trials", "No trial has reported a result.");
  const go = (more) => { location.hash = `#/trials${query({...words, ...more})}`; };
  const choose = (title, value, values, change) => {
    const select = el("select", {onchange: () => change(select.value)}, ...values.map((each) => el("option", {value: each, text: each})));
    select.value = value;
    return el("label", {}, el("span", {class: "soft", text: title}), " ", select);
  };
  let shown = "";
  return {
    element: el("div", {}, form, place, chart.element, table.element),
    words: {experiment: words.experiment, metric: words.metric},
    update(model) {
      const facts = model.facts;
      const names = facts.experiments.map((each) => each.name);
      place.textContent = names.length ? `Result files of ${names.length} of ${facts.experiments_total} experiments in ${facts.root}, on the machine of the dashboard.`
        : `No experiment: the dashboard looks for folders with result.json or progress.csv in ${facts.root} (--results, TUNE_RESULT_DIR).`;
      const now = JSON.stringify([names, facts.metrics, facts.experiment, facts.metric]);
      if (now !== shown) { // a list that is open stays
        form.replaceChildren(...(names.length ? [choose("Experiment", facts.experiment, names, (experiment) => go({experiment, metric: ""})),
          choose("Metric", facts.metric, facts.metrics, (metric) => go({metric}))] : []));
        shown = now;
      }
      chart.element.hidden = !facts.curves.length;
      chart.update(facts.curves, facts.metric, `${facts.metric} of ${facts.experiment}`);
      table.take(model.tables.trials);
    },
  };
}};
