// The views.  build(id, words) returns {element, update(model), stream, words, title}.

const VIEWS = {};

const NODE_COLUMNS = [
  {key: "node_id", title: "Node", main: true, cell: (row) => el("span", {}, link(`node/${row.node_id}`, short(row.node_id), {title: row.node_id}),
    row.is_head_node ? " head" : "")},
  {key: "state", title: "State", cell: (row) => lifeChip(row.state)},
  {key: "cpu", title: "CPUs held", value: (row) => used(row, "CPU"), cell: (row) => amount(row, "CPU")},
  {key: "cpu_percent", title: "Processors", value: (row) => row.cpu_percent ?? null,
    cell: (row) => row.cpu_percent === undefined ? "-" : bar(row.cpu_percent, 100, `${row.cpu_percent.toFixed(0)} %`)},
  {key: "mem_used_bytes", title: "Memory", cell: (row) => row.mem_total_bytes
    ? bar(row.mem_used_bytes, row.mem_total_bytes, `${bytes(row.mem_used_bytes)} of ${bytes(row.mem_total_bytes)}`) : "-"},
  {key: "store_bytes", title: "Store", cell: (row) => row.store_capacity_bytes
    ? bar(row.store_bytes, row.store_capacity_bytes, `${bytes(row.store_bytes)} of ${bytes(row.store_capacity_bytes)}`) : "-"},
  {key: "disk_bytes", title: "Spilled", num: true, wide: true, cell: (row) => row.disk_bytes === undefined ? "-" : bytes(row.disk_bytes)},
  {key: "workers", title: "Workers", num: true, cell: (row) => count(row.workers)},
  {key: "tasks", title: "Open tasks", num: true, cell: (row) => count(row.tasks)},
  {key: "tasks_ended", title: "Ended", num: true, wide: true, cell: (row) => count(row.tasks_ended)},
  {key: "node_ip", title: "Address", wide: true, cell: (row) => row.node_ip},
  {key: "state_message", title: "Message", wide: true, cell: (row) => row.state_message},
];
const used = (row, name) => (row.resources && row.resources[name] ? row.resources[name][0] : null);
const amount = (row, name) => {
  const found = row.resources && row.resources[name];
  return found ? bar(found[0], found[1], `${number(found[0])} of ${number(found[1])}`) : "-";
};

VIEWS.overview = {title: "Nodes", build() {
  const table = new Table(NODE_COLUMNS, {what: "nodes", empty: "No node."});
  return {element: table.element, stream: "nodes", update: (model) => table.take(model.tables.nodes)};
}};
