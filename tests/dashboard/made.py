"""Made sessions of any size, in the place of a running one: the same rows, through the same JSON."""

import socket
import threading
from contextlib import contextmanager

import numpy as np

from tests.dashboard.pages import Server
from zray.dashboard import server
from zray.util.recorded_runs import Runs, Track

NOW = 1_800_000_000.0
FUNCTIONS = 40
STATES = ("RUNNING", "PENDING_NODE_ASSIGNMENT", "PENDING_ARGS_AVAIL", "FAILED", "FINISHED")
HOSTILE = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>&lt;\u202e\x1b[31m'


def hexadecimal(kind, number, digits):
    return f"{kind:x}{number:0{digits - 1}x}"


class MadeSession:
    """A session with as many nodes and tasks as are wanted.

    name: of functions, classes, files and everything else that users name.
    """

    def __init__(self, nodes=3, tasks=200, name="work", results=None, is_empty=False, now=NOW):
        self.facts = {"session_name": "made", "address": "127.0.0.1:6379"}
        self.results, self.experiments = results, None
        self.node_count, self.task_count, self.name, self.now = nodes, tasks, name, now
        self.asked = []
        self.failure = None
        self._tasks = [] if is_empty else [self._task(number) for number in range(tasks)]
        self._runs = Runs([], [], _columns(0, 1, now)) if is_empty else self._made_runs()

    def node_id(self, number):
        return hexadecimal(10, number, 16)

    def _note(self, what):
        self.asked.append(what)
        if self.failure is not None:
            raise self.failure

    def _task(self, number):
        state = STATES[min(number * 20 // max(self.task_count, 1), 4)] if number % 3 else "FINISHED"
        return {
            "task_id": hexadecimal(1, number, 32),
            "name": f"{self.name}_{number % FUNCTIONS}",
            "type": "ACTOR_TASK" if number % 10 == 0 else "NORMAL_TASK",
            "state": state,
            "job_id": "b" * 16,
            "node_id": self.node_id(number % self.node_count),
            "actor_id": hexadecimal(2, number % 7, 32) if number % 10 == 0 else None,
            "worker_pid": 1_000 + number % (self.node_count * 4) if state in ("RUNNING", "FINISHED") else None,
            "attempt_number": number % 2,
            "error_type": "TASK_EXECUTION_EXCEPTION" if state == "FAILED" else None,
            "run_ms": 1_500 if state == "RUNNING" else None,
        }

    def _made_runs(self):
        threads = self.node_count * 4
        tracks = [Track(self.node_id(each // 4), 1_000 + each, f"{self.name} {each % 4}", 0) for each in range(threads)]
        names = [f"{self.name}_{each}" for each in range(FUNCTIONS)]
        return Runs(tracks, names, _columns(self.task_count, threads, self.now), 12, 0)

    def nodes(self):
        self._note("nodes")
        return [
            {
                "node_id": self.node_id(number),
                "node_ip": f"10.0.{number // 250}.{number % 250}",
                "node_name": "made",
                "state": "DEAD" if number and number % 50 == 0 else "ALIVE",
                "state_message": self.name if number % 50 == 0 else "",
                "resources_total": {"CPU": 4.0, "memory": 8e9, **({} if number else {"node:__internal_head__": 1.0})},
                "labels": {"kind": self.name},
            }
            for number in range(self.node_count)
        ]

    def usage(self):
        return {
            self.node_id(number): {
                "resources": {"CPU": [number % 5, 4.0], self.name: [1.0, 2.0]},
                "cpu_percent": number % 100,
                "mem_used_bytes": 3 << 30,
                "mem_total_bytes": 8 << 30,
                "store_bytes": 1 << 30,
                "disk_bytes": number << 20,
                "store_capacity_bytes": 2 << 30,
                "store_objects": 40,
                "workers": 4,
                "tasks": 5,
                "tasks_ready": 1,
                "tasks_ended": self.task_count // self.node_count,
            }
            for number in range(self.node_count)
        }

    def tasks(self):
        self._note("tasks")
        return self._tasks

    def runs(self):
        self._note("runs")
        return self._runs

    def workers(self):
        return [
            {
                "worker_id": hexadecimal(3, number, 40),
                "worker_type": "WORKER",
                "is_alive": True,
                "pid": 1_000 + number,
                "node_id": self.node_id(number // 4),
                "job_id": "b" * 16,
                "actor_id": None,
            }
            for number in range(self.node_count * 4)
        ]

    def actors(self):
        states = ("ALIVE", "PENDING_CREATION", "RESTARTING", "DEAD")
        return [
            {
                "actor_id": hexadecimal(2, number, 32),
                "class_name": self.name,
                "name": f"{self.name} {number}",
                "ray_namespace": "home",
                "state": states[number % 4],
                "job_id": "b" * 16,
                "node_id": self.node_id(number % self.node_count),
                "pid": 1_000 + number,
            }
            for number in range(7)
        ]

    def objects(self):
        return [
            {
                "object_id": hexadecimal(4, number, 40),
                "object_size": (60 - number) << 20,
                "state": ("MEMORY", "DISK", "MESSAGE", "COMING", "PENDING")[number % 5],
                "reference_type": ("PINNED_IN_MEMORY", "LOCAL_REFERENCE", "USED_BY_PENDING_TASK", "COPY")[number % 4],
                "has_ref": number % 2 == 0,
                "call_site": f"put at {self.name}.py:{number % 3}" if number % 2 else f"task {self.name}_1",
                "pid": 0 if number % 4 > 1 else 1_000 + number,
                "node_id": self.node_id(number % self.node_count),
            }
            for number in range(60)
        ]

    def summary(self, kind):
        row = {"total_objects": 20, "total_size_mb": 400.0, "node_states": {"MEMORY": 12, "DISK": 8}}
        return {"cluster": {"summary": {f"put at {self.name}.py:{number}": row for number in range(3)}}}

    def groups(self):
        return [
            {
                "placement_group_id": hexadecimal(5, 1, 32),
                "name": self.name,
                "bundles": {0: {"CPU": 1.0}, 1: {"CPU": 1.0}},
                "bundles_to_node_id": {0: self.node_id(0), 1: self.node_id(1)},
                "strategy": "SPREAD",
                "state": "CREATED",
                "stats": {},
            }
        ]

    def jobs(self):
        submitted = {"submission_id": "raysubmit_1", "type": "SUBMISSION", "entrypoint": f"python {self.name}.py"}
        times = {"message": self.name, "start_time": 1e12, "end_time": 1e12 + 5e3, "driver_exit_code": 0, "pid": None}
        return [
            {"job_id": "raysubmit_1", **submitted, "status": "SUCCEEDED", "node_id": self.node_id(0), **times},
            {"job_id": "b" * 16, "status": "RUNNING", "type": "DRIVER", "pid": 999, "node_id": self.node_id(0)},
        ]

    def why(self, id):
        return [f"{self.name} waits for:", f"  a CPU, {id}"]

    def log_files(self):
        rows = [
            {"node_id": self.node_id(0), "filename": f"worker-{number}.log", "kind": "worker_out"}
            for number in range(5)
        ]
        return rows, [f"Logs of node {self.name} are on its machine."]

    def log_lines(self, what, tail):
        self._note(("log", tuple(sorted(what.items())), tail))
        return [f"{number} {self.name}" for number in range(min(tail, 500))]


def _columns(count, threads, now):
    """Runs that fill the last minute of all threads, one after the other."""
    place = np.arange(count)
    each = max(count // threads, 1)
    seconds = 60.0 / each
    begin = now - 60.0 + (place // threads) * seconds
    ids = np.array([np.void(bytes.fromhex(hexadecimal(1, number, 32))) for number in range(count)], "V16")
    return {
        "track": (place % threads).astype("<u4"),
        "name": (place % FUNCTIONS).astype("<u4"),
        "outcome": np.where(place % 97 == 0, 1, 0).astype("u1"),
        "begin": begin.astype("<f8"),
        "end": (begin + seconds * 0.8).astype("<f8"),
        "task_id": ids,
    }


@contextmanager
def served(session, monkeypatch):
    """A real server of a made session, in a thread."""
    mine, theirs = socket.socketpair()
    monkeypatch.setattr(server, "end_descriptor", theirs.detach)
    monkeypatch.setattr(server, "signals", ())
    listener = server.listening("127.0.0.1", 0)
    token = server.new_token()
    ended = []
    thread = threading.Thread(target=lambda: ended.append(server.serve(session, listener, token)))
    thread.start()
    try:
        yield Server(server.address_of(listener, token))
    finally:
        mine.close()
        thread.join(20)
        assert ended, "the server has not ended"
