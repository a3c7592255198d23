"""Board of Grafana for the metrics that `zray metrics` exports."""

from __future__ import annotations

from typing import Any

# Title, unit of Grafana, and expressions with their legends.
PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Tasks that have not ended",
        "short",
        (('sum by (state) (zray_tasks{state!~"FINISHED|FAILED"})', "{{state}}"),),
    ),
    ("Tasks ended per second", "ops", (("sum(rate(zray_node_tasks_ended_total[1m]))", "ended"),)),
    ("Failed tasks by function", "short", (('sum by (name) (zray_tasks{state="FAILED"})', "{{name}}"),)),
    ("Actors", "short", (("sum by (state) (zray_actors)", "{{state}}"),)),
    ("CPUs in use", "short", (('zray_resources{name="CPU"}', "{{state}}"),)),
    ("Workers", "short", (("sum by (node) (zray_node_workers)", "{{node}}"),)),
    (
        "Object store",
        "bytes",
        (
            ("sum by (location) (zray_object_store_memory_bytes)", "{{location}}"),
            ("sum(zray_object_store_capacity_bytes)", "capacity"),
        ),
    ),
    (
        "Memory of the machines",
        "bytes",
        (("zray_node_mem_used_bytes", "used, {{node}}"), ("zray_node_mem_total_bytes", "all, {{node}}")),
    ),
    ("Processors of the machines", "percent", (("zray_node_cpu_percent", "{{node}}"),)),
    ("Metrics left out", "short", (("zray_metrics_left_out", "{{metric}}"),)),
)
WIDTH, HEIGHT, PER_ROW = 12, 8, 2


def board() -> dict[str, Any]:
    """Return the board, which Grafana asks for its source of data."""
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    panels = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {
                "x": number % PER_ROW * WIDTH,
                "y": number // PER_ROW * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT,
            },
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend, "datasource": source}
                for index, (expression, legend) in enumerate(targets)
            ],
        }
        for number, (title, unit, targets) in enumerate(PANELS)
    ]
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}],
        "title": "zray",
        "uid": "zray",
        "schemaVersion": 39,
        "time": {"from": "now-15m", "to": "now"},
        "refresh": "10s",
        "panels": panels,
    }
