"""Start and end of sessions.  Names and meanings are Ray's.

The first of `.remote()`, `get`, `put`, `wait` starts a session on this machine, where no init() did.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..exceptions import ZrayError
from ..host import context
from ..on_import import uncaught
from ..options.runtime_env import check_runtime_env

if TYPE_CHECKING:
    from ..host.client.runtime import Runtime

_start_lock = context.StartLock()
# Called in place of the start of a session, with that and its arguments; None: nothing stands in between.
around: Callable[..., Any] | None = None
ZrayError._render_traceback_ = uncaught.lines_for_ipython  # from here: errors lie below the module that folds frames


class Context(dict[str, Any]):
    """Result of init(): a dict of facts on the session.  `with zray.init():` calls shutdown() at the end."""

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *error: object) -> None:
        shutdown()

    @property
    def address_info(self) -> dict[str, Any]:
        """Facts on the session, under Ray's older name."""
        return self

    @property
    def address(self) -> str:
        """Address with which other programs join: init(address=...)."""
        return str(self["address"])

    @property
    def dashboard_url(self) -> str:
        """Address of the dashboard for a browser, with its token; "" without include_dashboard=True."""
        return str(self["dashboard_url"])

    def _repr_html_(self) -> str:
        """The facts as a table, for a notebook."""
        from html import escape

        rows = (f"<tr><td>{escape(key)}</td><td>{escape(str(value))}</td></tr>" for key, value in self.items())
        return f"<table>{''.join(rows)}</table>"

    def disconnect(self) -> None:
        """Leave the session, as shutdown() does."""
        shutdown()


def init(
    address: str | None = None,
    *,
    num_cpus: int | float | None = None,
    num_gpus: int | float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: float | None = None,
    object_spilling_directory: str | None = None,
    ignore_reinit_error: bool = False,
    namespace: str | None = None,
    log_to_driver: bool = True,
    cancel_unreferenced: bool = False,
    local_mode: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str | None = None,
    dashboard_port: int | None = None,
    logging_level: Any = None,
    runtime_env: dict[str, Any] | None = None,
    infeasible: str | None = None,
    seed: int | None = None,
    record: str | os.PathLike[str] | None = None,
    _memory: int | float | None = None,
    **ignored: Any,
) -> Context:
    """Start a session on this machine, or join one.

    Args:
        address: None joins ZRAY_ADDRESS if set, and starts a session else.  "local" starts a session.  "auto" joins
            the newest session of `zray start` on this machine, else the newest of another program's init(), which its
            own address joins too.  "HOST:PORT" joins a cluster through its node here, or with the token in ZRAY_TOKEN.
        num_cpus, num_gpus, resources, labels: of a new session; by default the CPUs and GPUs that this process may use.
        object_store_memory: bytes of shared memory; default: 30 % of memory, at most 80 % of what /dev/shm has free.
        object_spilling_directory: folder for values that the store has no room for; default: the session's; "": none.
        ignore_reinit_error: return the facts where this process is in a session already.
        namespace, log_to_driver: of named actors and groups, by default its own; whether to print what workers print.
        cancel_unreferenced: cancel tasks once no ref on their results is left, as for notebooks.  Default: False.
        local_mode: run everything inside of this process, for debuggers.  Default: False, or True where ZRAY_LOCAL=1.
        include_dashboard: start the dashboard, a page for a browser, and print its address.  Default: no.
        dashboard_host, dashboard_port, logging_level: where it listens, by default 127.0.0.1:8265; has no effect.
        runtime_env: environment of all tasks: a dict with env_vars, working_dir, py_modules, excludes, pip or uv.
        infeasible: "raise" or "wait" for requests that no node can meet.  Default: "raise"; in a cluster "wait".
        seed, record: of zray.util.rng(), default ZRAY_SEED; file for the record of the whole run, default ZRAY_RECORD.
        _memory: bytes that `memory=` options may request together; default: 70 % of memory.

    Returns:
        A dict of facts on the session, also a context manager: `with zray.init():` calls shutdown() at the end.

    Raises:
        RuntimeError: this process is in a session already, or gevent or eventlet has replaced its threads.
        OSError: no session is at the address (ConnectionError), or the record cannot be written.
        ValueError, TypeError, NotImplementedError: a bad or absent argument, or one of a new session in a joined one.
    """
    of_node = {"num_cpus": num_cpus, "num_gpus": num_gpus, "resources": resources, "labels": labels, "memory": _memory}
    of_program = {"log_to_driver": log_to_driver, "local_mode": local_mode, "infeasible": infeasible, "seed": seed}
    return _start(
        ignored,
        ignore_reinit_error,
        address,
        page=(dashboard_host, dashboard_port) if include_dashboard else None,
        **of_node,
        **of_program,
        object_store_memory=object_store_memory,
        object_spilling_directory=object_spilling_directory,
        namespace=namespace,
        cancel_unreferenced=cancel_unreferenced,
        record=record,
        runtime_env=runtime_env,
    )


def _start(
    further: dict[str, Any],
    ignore_reinit_error: bool,
    address: str | None,
    namespace: str | None,
    record: str | os.PathLike[str] | None,
    runtime_env: dict[str, Any] | None,
    page: tuple[str | None, int | None] | None,
    **arguments: Any,
) -> Context:
    """further: arguments of init() that have no effect, or are unknown.  page: host and port of the dashboard."""
    from ..host.driver import startup
    from ..options.remote_options import check_text
    from .job_config import with_job_config

    startup.check_init_arguments(further)
    namespace, runtime_env = with_job_config(further.get("job_config"), namespace, runtime_env)
    if further.get("_only_looks"):
        arguments["only_looks"] = True
    arguments["runtime_env"] = check_runtime_env(runtime_env or {}, "init()")
    for name, text in {"address": address, "namespace": namespace}.items():
        if text is not None:
            check_text(name, text)
    with _start_lock:
        runtime = context.runtime
        if runtime is None:
            recorder = None
            if record or (record is None and os.environ.get("ZRAY_RECORD")):
                from .recording import recorder_for

                recorder = recorder_for(record, is_local=arguments["local_mode"] or os.environ.get("ZRAY_LOCAL") == "1")
            start = startup.start if around is None else partial(around, startup.start)
            begin = partial(start, address, namespace=namespace, **arguments)
            try:
                runtime = _begin(begin, page, further.get("_metrics_export_port"))
            except BaseException:
                if recorder is not None:
                    recorder.cancel()
                raise
            if recorder is not None:
                runtime.recorder = recorder
                recorder.begin(runtime)
            context.set_runtime(runtime)
        elif not ignore_reinit_error:
            raise RuntimeError(startup.why_not_again(runtime))
        facts = startup.describe(runtime)
        facts["metrics_export_port"] = _beside("metrics_endpoint", "port")
        return Context(facts, dashboard_url=_beside("dashboards", "url") or "")


def _begin(begin: Callable[[], Any], page: tuple[str | None, int | None] | None, metrics_port: Any) -> Any:
    """Start a session, with a dashboard and an endpoint for metrics if these are wanted."""
    if metrics_port is not None:
        from . import metrics_endpoint

        begin = partial(metrics_endpoint.beside, begin, metrics_port)
    if page is not None:
        from .dashboards import beside

        return beside(begin, *page)
    return begin()


def _beside(name: str, what: str) -> Any:
    """Call a function of a module that starts a process beside the session, if that was needed."""
    module = sys.modules.get(f"{__package__}.{name}")
    return getattr(module, what)() if module is not None else None


def require_runtime(using: Any = None) -> Runtime:
    """Return this process's session; start one where there is none.

    Args:
        using: refs or a handle that the caller was given; without a session they are of one that ended.
    """
    runtime = context.runtime
    if runtime is None:
        if context.is_forked:
            raise RuntimeError(
                "This process was forked from a program in a zray session, and is in no session itself: refs and "
                "actors of the parent are not valid here.  Call zray.init() for another session, or run a task instead."
            )
        context.refuse_without_session(using)
        init(ignore_reinit_error=True)
        runtime = context.runtime
        assert runtime is not None
    return runtime


def is_initialized() -> bool:
    """Tell whether this process is in a session."""
    return context.runtime is not None


def shutdown() -> None:
    """Leave the session.  A session that this process started ends: no process, file or memory is left.

    A second call does nothing, and so does a call in a task or an actor.
    """
    runtime = context.runtime
    if runtime is None or runtime.is_worker:
        return
    _beside("dashboards", "stop")
    _beside("metrics_endpoint", "stop")
    context.set_runtime(None)
    runtime.leave()  # type: ignore[attr-defined]
