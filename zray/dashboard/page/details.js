// What is known of one task, actor, node or object; and logs.

function facts(rows) {
  const list = el("dl", {class: "facts"});
  for (const [title, value] of rows) {
    if (value === null || value === undefined || value === "" || value === false || value === 0) continue;
    list.append(el("div", {}, el("dt", {text: title}), el("dd", {}, value)));
  }
  return list;
}

function reasons(lines) {
  return el("pre", {class: "why", text: (lines || []).join("\n") || "Nothing is known."});
}

const outputLink = (key, id) => link(`log${query({[key]: id})}`, "output");

VIEWS.task = {title: "Task", tab: "tasks", build(id) {
  const body = el("div");
  return {
    element: body, words: {id}, title: `Task ${short(id)}…${id.slice(-4)}`,
    update(model) {
      const {row, why} = model.facts;
      body.replaceChildren(
        el("section", {class: "card"}, el("h3", {text: row ? "Facts" : "Not known any more"}), row ? facts([
          ["Function", nameWithColour(row.name)], ["State", taskChip(row.state)], ["Error", row.error_type], ["Kind", row.type],
          ["Node", nodeLink(row.node_id)], ["Process", row.worker_pid && el("span", {}, `${row.worker_pid} `, link(`log${query({pid: row.worker_pid})}`, "output"))],
          ["Actor", row.actor_id && actorLink(row.actor_id)], ["Began", row.begin && clock(row.begin)], ["Took", row.seconds ? duration(row.seconds) : ""],
          ["Retries", row.attempt_number && count(row.attempt_number)], ["Job", row.job_id && short(row.job_id)],
          ["Output", outputLink("task_id", id)], ["Id", el("code", {text: row.task_id})],
        ]) : el("p", {text: "No node remembers this task, and no process has its record."})),
        el("section", {class: "card"}, el("h3", {text: row && groupOf(row.state) === "waiting" ? "Why it waits" : "Why"}), reasons(why)),
        el("section", {class: "card"}, el("h3", {text: "In a terminal"}), command(`zray why ${id}`), command(`zray logs ${id}`),
          row && groupOf(row.state) === "running" ? command(`zray stack ${id}`) : null, row && ["waiting", "running"].includes(groupOf(row.state)) ? command(`zray cancel ${id}`) : null),
      );
    },
  };
}};

VIEWS.actor = {title: "Actor", tab: "actors", build(id) {
  const body = el("div");
  const calls = taskTable("No call is known.");
  return {
    element: el("div", {}, body, el("h3", {text: "Calls"}), calls.element), words: {id}, title: `Actor ${short(id)}…${id.slice(-4)}`,
    update(model) {
      const {row, why} = model.facts;
      calls.take(model.tables.tasks);
      body.replaceChildren(
        el("section", {class: "card"}, el("h3", {text: row ? "Facts" : "Not known any more"}), row ? facts([
          ["Class", nameWithColour(row.class_name)], ["Name", row.name], ["State", lifeChip(row.state)], ["Node", nodeLink(row.node_id)],
          ["Process", row.pid && String(row.pid)], ["Namespace", row.ray_namespace && short(row.ray_namespace)], ["Job", short(row.job_id)],
          ["Output", outputLink("actor_id", row.actor_id)], ["Id", el("code", {text: row.actor_id})],
        ]) : el("p", {text: "No node remembers this actor."})),
        el("section", {class: "card"}, el("h3", {text: "Why"}), reasons(why)),
        el("section", {class: "card"}, el("h3", {text: "In a terminal"}), command(`zray why ${id}`), command(`zray logs ${id}`), command(`zray stack ${id}`)),
      );
    },
  };
}};

VIEWS.node = {title: "Node", tab: "nodes", build(id) {
  const body = el("div");
  const workers = tableOf([
    {key: "pid", title: "Process", main: true, cell: (row) => link(`log${query({pid: row.pid})}`, `pid ${row.pid}`, {title: "Output"})},
    {key: "worker_type", title: "Kind", cell: (row) => (row.worker_type === "DRIVER" ? "program" : row.actor_id ? "actor" : "worker")},
    {key: "actor_id", title: "Actor", cell: (row) => actorLink(row.actor_id)},
    {key: "job_id", title: "Job", cell: (row) => short(row.job_id)},
  ], "processes", "No process.");
  const tasks = taskTable("No task is known here.");
  return {
    element: el("div", {}, body, el("h3", {text: "Processes"}), workers.element, el("h3", {text: "Tasks"}), tasks.element), words: {id}, title: `Node ${short(id)}`,
    update(model) {
      const {row} = model.facts;
      workers.take(model.tables.workers);
      tasks.take(model.tables.tasks);
      if (!row) {
        body.replaceChildren(el("p", {class: "empty", text: "The session does not know this node any more."}));
        return;
      }
      const resources = Object.entries(row.resources || {}).filter(([name]) => !["memory", "object_store_memory"].includes(name));
      body.replaceChildren(el("section", {class: "card"}, facts([
        ["State", lifeChip(row.state)], ["Message", row.state_message], ["Address", row.node_ip], ["Kind", row.is_head_node ? "head" : "node"],
        ...resources.slice(0, 20).map(([name, [some, all]]) => [name, bar(some, all, `${number(some)} of ${number(all)} held`)]),
        ["Processors", row.cpu_percent !== undefined && bar(row.cpu_percent, 100, `${row.cpu_percent.toFixed(0)} %`)],
        ["Memory", row.mem_total_bytes && part(row.mem_used_bytes, row.mem_total_bytes)], ["Object store", row.store_capacity_bytes && part(row.store_bytes, row.store_capacity_bytes)],
        ["Spilled", row.disk_bytes && bytes(row.disk_bytes)], ["Labels", Object.entries(row.labels || {}).map(([name, value]) => `${name}=${value}`).join(", ")],
        ["Logs", link(`logs${query({node: row.node_id})}`, "files")], ["Id", el("code", {text: row.node_id})],
      ].filter(([, value]) => value))));
    },
  };
}};

VIEWS.object = {title: "Object", tab: "objects", build(id) {
  const table = tableOf(OBJECT_COLUMNS, "copies", "No process and no task refers to this value any more.");
  const body = el("div");
  return {
    element: el("div", {}, table.element, body), words: {id}, title: `Object ${short(id)}…${id.slice(-4)}`,
    update(model) {
      table.take(model.tables.objects);
      const isOfTask = ![...table.rows.values()].some((row) => row.call_site.startsWith("put "));
      body.replaceChildren(...[
        el("section", {class: "card"}, el("h3", {text: "Why"}), reasons(model.facts.why)),
        isOfTask ? el("p", {}, "Made by task ", link(`task/${id.slice(0, 32)}`, `${short(id)}…${id.slice(28, 32)}`), ".") : null,
        el("section", {class: "card"}, el("h3", {text: "In a terminal"}), command(`zray why ${id}`), command("zray memory")),
      ].filter(Boolean));
    },
  };
}};

VIEWS.why = {title: "Why", tab: "overview", build(id, words) {
  const body = el("section", {class: "card"});
  return {element: body, words: {id: words.id}, title: "What waits, and for what", update(model) {
    body.replaceChildren(reasons(model.facts.why), command(`zray why ${words.id || ""}`.trim()));
  }};
}};

VIEWS.log = {title: "Log", tab: "logs", build(id, words) {
  const text = el("pre", {class: "log", tabindex: "0"});
  const note = el("p", {class: "note"});
  const find = el("input", {type: "search", placeholder: "Lines that contain", "aria-label": "Lines that contain", oninput: () => fill()});
  const {suffix, tail, ...subject} = words;
  const isFile = Boolean(subject.filename);
  const form = filterForm("log", words, [["tail", "Lines", [["", "200"], ["1000", "1,000"], ["2000", "2,000"]]],
    ...(isFile ? [] : [["suffix", "Stream", [["", "output"], ["err", "errors"]]]])]);
  form.querySelectorAll("a.pill").forEach((each) => each.remove());
  form.append(find);
  let lines = [], message = "";
  const fill = () => {
    const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
    const wanted = find.value.toLowerCase();
    const shown = wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : lines;
    text.textContent = shown.join("\n") || message || (wanted ? "No line contains this." : "Nothing was printed.");
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  };
  const name = subject.filename || Object.entries(subject).map(([key, value]) => `${key.replace("_id", "")} ${short(value)}`).join(" ");
  const shell = {task_id: subject.task_id, actor_id: subject.actor_id, pid: subject.pid, filename: subject.filename};
  return {
    element: el("div", {}, form, note, text, command(`zray logs ${Object.values(shell).find(Boolean)} --follow`)), words, title: `Log of ${name}`,
    update(model) {
      ({lines, message} = model.facts);
      note.textContent = model.facts.is_cut ? `The last ${whole.format(lines.length)} lines.` : "";
      note.hidden = !note.textContent;
      fill();
    },
  };
}};
