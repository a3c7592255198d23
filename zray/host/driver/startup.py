"""Start and end of a program's session: init() and shutdown()."""

from __future__ import annotations

import atexit
import os
import time
import warnings
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any

from ...exceptions import AuthenticationError, ClusterLostError, ZrayError
from ...options.runtime_env import shared_and_own
from ...ray_names import absent, ray_imports
from ...wire.actors import SHUTDOWN_SECONDS
from ...wire.session import Goodbye
from .. import context
from ..client import interrupts, unfetched_failures
from ..process.machine_resources import why_store_is_too_large
from ..process.node_processes import (
    NODE_END_SECONDS,
    declared_resources,
    end_node,
    start_node,
    store_capacity,
)
from ..session.discovery import SCHEME, find_node_of, find_session, is_in_cluster, session_at
from .green_threads import refuse_green_threads
from .interrupted_end import cancel_tasks, was_interrupted

if TYPE_CHECKING:
    from ..client.runtime import Runtime
    from ..session.session import Session
    from .driver import Driver

GOODBYE_SECONDS = 1.0
# A head that does not answer in this time may still exist.
PROBE_SECONDS = 1.0
# How long an ending program waits for the output of its workers on other nodes.
OUTPUT_SECONDS = 1.0
# Further arguments of init(), those of Ray but the last one; all but job_config, _metrics_export_port and _only_looks
# change nothing here.
ACCEPTED_ARGUMENTS = (
    "configure_logging",
    "logging_format",
    "logging_config",
    "include_log_monitor",
    "job_config",
    "enable_resource_isolation",
    "_driver_object_store_memory",
    "_enable_object_reconstruction",
    "_metrics_export_port",
    "_redis_password",
    "_redis_username",
    "_system_config",
    "_only_looks",
)

INFEASIBLE = ("raise", "wait")
SEED_MAX = (1 << 63) - 1

_own_pid = 0


def start(
    address: str | None,
    *,
    local_mode: bool,
    num_cpus: float | None,
    num_gpus: float | None,
    resources: dict[str, float] | None,
    labels: dict[str, str] | None,
    memory: float | None,
    object_store_memory: float | None,
    object_spilling_directory: str | None,
    namespace: str | None,
    log_to_driver: bool,
    cancel_unreferenced: bool,
    infeasible: str | None,
    seed: int | None,
    runtime_env: dict[str, Any],
    only_looks: bool = False,
) -> Any:
    """As zray.init.  Returns a Driver, or a LocalRuntime in its place."""
    if local_mode or os.environ.get("ZRAY_LOCAL"):
        from ..local_mode.start import is_asked_for, start_local

        if is_asked_for(local_mode, address):
            runtime = start_local(
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                resources=resources,
                labels=labels,
                memory=memory,
                object_store_memory=object_store_memory,
                namespace=namespace,
                infeasible=checked_infeasible(infeasible),
                seed=checked_seed(seed),
                runtime_env=runtime_env,
            )
            _leave_at_exit()
            return runtime
    refuse_green_threads()
    interrupts.install()  # interrupts wait until the session exists: half a start leaves a node behind
    try:
        driver = _start(
            address,
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            resources=resources,
            labels=labels,
            memory=memory,
            object_store_memory=object_store_memory,
            object_spilling_directory=object_spilling_directory,
            namespace=namespace,
            log_to_driver=log_to_driver,
            cancel_unreferenced=cancel_unreferenced,
            infeasible=infeasible,
            seed=seed,
            runtime_env=runtime_env,
            only_looks=only_looks,
        )
    except BaseException as error:
        interrupts.uninstall()
        if isinstance(error, (ConnectionError, ZrayError)):  # the text is complete without a traceback
            raise error.with_traceback(None) from None
        raise
    _leave_at_exit()
    return driver


def _start(
    address: str | None,
    *,
    num_cpus: float | None,
    num_gpus: float | None,
    resources: dict[str, float] | None,
    labels: dict[str, str] | None,
    memory: float | None,
    object_store_memory: float | None,
    object_spilling_directory: str | None,
    namespace: str | None,
    log_to_driver: bool,
    cancel_unreferenced: bool,
    infeasible: str | None,
    seed: int | None,
    runtime_env: dict[str, Any],
    only_looks: bool = False,
) -> Driver:
    address = address or os.environ.get("ZRAY_ADDRESS") or ray_imports.address() or "local"
    infeasible, seed = checked_infeasible(infeasible), checked_seed(seed)
    given = {
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "resources": resources,
        "labels": labels,
        "_memory": memory,
        "object_store_memory": object_store_memory,
        "object_spilling_directory": object_spilling_directory,
    }
    shared, own = shared_and_own(runtime_env)
    code, is_owner = None, True
    if address == "local":
        total = declared_resources(num_cpus, num_gpus, resources, memory)
        store_capacity(object_store_memory)  # refuse first, then warn
        if note := why_store_is_too_large(object_store_memory):
            warnings.warn(note, RuntimeWarning, stacklevel=6)  # shown at the caller of init()
        session, node_pid = start_node(
            total,
            object_store_memory,
            driver_pid=os.getpid(),
            labels=labels,
            spill_directory=object_spilling_directory,
            meanwhile=lambda: import_module(".driver", __package__),
        )
    else:
        _refuse_node_arguments(given)
        session, node_pid, is_owner, code = _join(address, shared)
    from .driver import Driver

    try:
        driver = Driver(
            session,
            node_pid,
            is_owner=is_owner,
            namespace=namespace or "",
            log_to_driver=log_to_driver,
            cancel_unreferenced=cancel_unreferenced,
            infeasible=infeasible,
            seed=seed,
            runtime_env=shared,
            only_looks=only_looks,
            code=code,
        )
    except BaseException:
        if is_owner:
            end_node(session, node_pid, seconds=0.0)
        raise
    if own:
        _begin_environment(driver, own)
    return driver


def _join(address: str, shared: dict[str, Any]) -> tuple[Session, int, bool, Any]:
    """Return (session, its node's pid, whether this program owns it, code bundles if other nodes may need them)."""
    if address != "auto" and not address.startswith(SCHEME):
        code = _asked_code(shared)
        return *_join_cluster(address), code
    session, node_pid = find_session() if address == "auto" else session_at(address)
    return session, node_pid, False, _asked_code(shared) if is_in_cluster(session) else None


def _asked_code(shared: dict[str, Any]) -> Any:
    """Return bundles of the program's own code for other nodes of a cluster."""
    from ..code.upload import asked_bundles

    return asked_bundles(shared)


def _begin_environment(driver: Driver, own: dict[str, Any]) -> None:
    """Give a program's tasks its archives and packages."""
    from ..code.environments import environment_for

    try:
        driver.environment, driver.kept = environment_for(driver, own)
    except BaseException:
        stop(driver)
        raise


def checked_infeasible(given: str | None) -> str:
    """Return the wanted reaction to work that no node can ever hold; "": chosen by the kind of session.

    Raises:
        ValueError: an unknown value.
    """
    source, value = "infeasible", given
    if value is None:
        source, value = "ZRAY_INFEASIBLE", os.environ.get("ZRAY_INFEASIBLE", "")
    if value not in ("", *INFEASIBLE) or given == "":
        raise ValueError(f"{source} must be {' or '.join(map(repr, INFEASIBLE))}, not {value!r}.")
    return value


def checked_seed(given: int | None) -> int | None:
    """Return the seed of the job's random numbers, or None.

    Raises:
        ValueError, TypeError: the value is no seed.
    """
    source, value = "seed", given
    if value is None and (text := os.environ.get("ZRAY_SEED", "")):
        source, value = "ZRAY_SEED", int(text) if text.isascii() and text.isdigit() else -1
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{source} must be an int, not {type(value).__name__}.")
    if not 0 <= value <= SEED_MAX:
        raise ValueError(f"{source} must be an integer from 0 to 2**63 - 1.")
    return int(value)


def _refuse_node_arguments(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is an option of new sessions, and this call joins one: give it to `zray start`, or to the "
                "init() that began the session."
            )


def _join_cluster(address: str) -> tuple[Session, int, bool]:
    """Return (session, its node's pid, whether this program owns it).  The node is the cluster's on this machine, or a
    new node without CPUs that lives as long as the program.
    """
    from ..security.token_input import cluster_address, token_from_environment

    address = cluster_address(address)
    found = find_node_of(address)
    token = token_from_environment()
    if found is not None:
        if token:
            _check_token(token)
        return *found, False
    if not token:
        if _is_refused(address):
            raise ConnectionError(
                f"Nothing listens at {address}: the head has ended, or listens elsewhere.  `zray start --head` prints "
                "its address; `zray status` lists the sessions on this machine."
            )
        raise ConnectionError(
            f"No node of the cluster at {address} runs on this machine, and ZRAY_TOKEN is not set: "
            "set it to the token that `zray start --head` printed there."
        )
    session, pid = start_node(
        {"CPU": 0},
        None,
        driver_pid=os.getpid(),
        cluster={"kind": "driver", "address": address},
        token=token,
        meanwhile=lambda: import_module(".driver", __package__),
    )
    return session, pid, True


def _is_refused(address: str) -> bool:
    """Return whether an address's machine is up and no process listens at the port."""
    import socket  # other ways to begin do without

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):
        return False
    return False


def _check_token(token: str) -> None:
    """Check a token: it is not needed here, but any other machine would refuse a bad one.

    Raises:
        AuthenticationError: the text is no token.
    """
    from ..security.keyring import Token

    try:
        Token.decode(token)
    except ValueError as error:
        raise AuthenticationError(str(error)) from None


def stop(driver: Driver) -> None:
    """As zray.shutdown."""
    if was_interrupted(is_exit=_is_exiting):
        cancel_tasks(driver)
    if driver.recorder is not None:
        driver.recorder.finish()
    if os.environ.get("ZRAY_DEBUG") == "1":
        from .leaks import tell

        tell(driver)
    if question := driver.ask_for_output():
        try:
            driver.say(question)
            driver.flush()
            driver.receive_until(lambda: driver.has_all_output, time.monotonic() + OUTPUT_SECONDS)
        except ClusterLostError:
            pass
    if driver.logs is not None:
        driver.logs.close()  # the logs go with the session
    unfetched_failures.tell(driver, is_last=True)
    fork_server = driver.paths.open_fork_server() if driver.is_owner else None
    try:
        driver.say(Goodbye("said goodbye"))
        driver.flush()
        driver.receive_until(lambda: driver.said_goodbye, time.monotonic() + GOODBYE_SECONDS)
    except ClusterLostError:
        pass
    driver.close()
    try:
        if driver.is_owner:
            patience = NODE_END_SECONDS + (SHUTDOWN_SECONDS if driver.said_goodbye else 0.0)
            end_node(driver.paths, driver.node_pid, fork_server, seconds=patience)
        os.close(driver.node_pidfd)
        os.close(driver.life)
    finally:
        interrupts.uninstall()  # not before: the rest of a shutdown would be nobody's


_is_exiting = False


def _at_exit() -> None:
    global _is_exiting
    _is_exiting = True
    runtime = context.runtime
    if os.getpid() == _own_pid and runtime is not None and not runtime.is_worker:
        context.set_runtime(None)
        runtime.leave()  # type: ignore[attr-defined]


def _leave_at_exit() -> None:
    global _own_pid
    if _own_pid != os.getpid():
        _own_pid = os.getpid()
        atexit.register(_at_exit)


def why_not_again(runtime: Runtime) -> str:
    """The error of a second zray.init()."""
    if runtime.is_worker:
        return "zray.init() was called in a task or an actor, which has a session already.  Leave it to the program."
    if runtime.connection.over:
        return f"The session that this process was in is over: {runtime.connection.over}  Call zray.shutdown() first."
    return "zray.init() was called twice.  Call zray.shutdown() first, or pass ignore_reinit_error=True."


def describe(runtime: Runtime) -> dict[str, Any]:
    """Return the facts for init()."""
    paths = getattr(runtime, "paths", None)
    address = address_of(runtime)
    return {
        "address": address,
        "gcs_address": address,
        "session_name": runtime.session,
        "session_dir": paths.folder if paths is not None else "",
        "node_id": runtime.node_id.hex(),
        "namespace": runtime.namespace,
    }


def cluster_of(runtime: Runtime) -> str:
    """Return the cluster's address HOST:PORT; "" without a cluster."""
    paths = getattr(runtime, "paths", None)
    info = paths.read_info() if paths is not None else None
    return info.cluster if info is not None else ""


def address_of(runtime: Runtime) -> str:
    """Return the address at which other programs join: HOST:PORT of the cluster, else the socket; "" in local mode."""
    paths = getattr(runtime, "paths", None)
    return cluster_of(runtime) or (paths.address if paths is not None else "")


def check_init_arguments(given: dict[str, Any]) -> None:
    """Refuse arguments of init() that are unknown or not yet supported.

    Raises:
        TypeError: an unknown argument.
        NotImplementedError: an argument of Ray's that is not yet supported, unless it is None or False.
    """
    for name, value in given.items():
        if name in absent.INIT_ARGUMENTS:
            if value:
                raise absent.not_built(absent.INIT_ARGUMENTS, name, f"{name}={value!r} of init()")
        elif name not in ACCEPTED_ARGUMENTS:
            raise TypeError(f"init() got an unexpected argument {name!r}.  See help(zray.init) for the valid ones.")
