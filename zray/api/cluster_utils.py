"""Clusters on one machine, for tests.

Each node is a process with its own session, shared memory and TCP port:

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=2, resources={"disk": 1})
    zray.init(address=cluster.address)
"""

from __future__ import annotations

import os
import signal
import time
import weakref
from typing import Any, ClassVar

from ..host.client import control
from ..host.process import node_processes
from ..host.security.keyring import read_secret
from ..host.session.session import Session

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02


class Node:
    """Node of a Cluster."""

    __module__ = "zray.cluster_utils"  # as programs import it

    def __init__(self, session: Session, pid: int) -> None:
        self.session = session
        self.pid = pid
        info = session.read_info()
        assert info is not None
        self.node_id = info.node_id
        self.address = info.endpoint
        self.unique_id = self.node_id  # Ray's name for it

    def __repr__(self) -> str:
        return f"Node({self.node_id}, pid={self.pid})"


class Cluster:
    """Head and nodes on this machine, also as a context manager.

    Args:
        initialize_head: start the head at once.  Default: False.
        connect: call connect() too.  Default: False.
        head_node_args: arguments of add_node() for the head.
        shutdown_at_exit: end all nodes when this process ends, also by kill -9.  Default: True.
    """

    __module__ = "zray.cluster_utils"  # as programs import it
    all: ClassVar[weakref.WeakSet[Cluster]] = weakref.WeakSet()  # those of this process

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
    ) -> None:
        self.is_bound = shutdown_at_exit
        self.all.add(self)
        if shutdown_at_exit:
            import atexit

            atexit.register(self.shutdown)
        self.head_node: Node | None = None
        self.worker_nodes: list[Node] = []
        self.token = ""
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    @property
    def address(self) -> str:
        """Address of the head as HOST:PORT; "" without a head."""
        return self.head_node.address if self.head_node is not None else ""

    def connect(self, namespace: str | None = None) -> Any:
        """Join the cluster: zray.init with its address.  namespace: as for zray.init."""
        from .sessions import init

        return init(address=self.address, namespace=namespace)

    def add_node(
        self,
        wait: bool = True,
        *,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        resources: dict[str, float] | None = None,
        labels: dict[str, str] | None = None,
        object_store_memory: float | None = None,
        object_spilling_directory: str | None = None,
        head_wait: float | None = None,
        **head: Any,
    ) -> Node:
        """Start a node, and wait until it is a member.  The first node is the head.

        Args:
            wait: accepted without effect.
            num_cpus, memory, resources, labels, object_store_memory, object_spilling_directory: as for
                zray.init.
            num_gpus: GPUs of the node; default 0, since all nodes share this machine.
            head_wait: seconds that the node waits for a head that is gone.
            head: options of the head alone, as for `zray start --head`: gcs_shards, gcs_replicas, global_schedulers,
                policy, state_dir, gcs_store, gcs_store_password_file, gcs_lineage_memory, driver_wait.
        """
        total = node_processes.declared_resources(num_cpus, num_gpus or 0, resources, memory)
        if self.head_node is None:
            options = {"port": 0, "labels": labels, "is_bound": self.is_bound, **head}
            options["spill_directory"] = object_spilling_directory
            session, pid = node_processes.start_head(total, object_store_memory, **options)
            self.head_node = Node(session, pid)
            self.token = read_secret(session.token_path).decode()
            return self.head_node
        if head:
            raise TypeError(f"{', '.join(head)}: only for the head.")
        joined = node_processes.start_member(
            total,
            object_store_memory,
            self.address,
            self.token,
            head_wait=head_wait,
            labels=labels,
            is_bound=self.is_bound,
            spill_directory=object_spilling_directory,
        )
        node = Node(*joined)
        self.worker_nodes.append(node)
        return node

    def remove_node(self, node: Node, allow_graceful: bool = False) -> None:
        """End a node by kill -9, as if its machine were gone.  allow_graceful=True: ask the node to end."""
        if node is self.head_node:
            self.head_node = None
        else:
            self.worker_nodes.remove(node)
        if allow_graceful:
            control.end(node.session, node.pid)
            return
        fork_server = node.session.open_fork_server()
        try:
            pidfd = os.pidfd_open(node.pid)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        except ProcessLookupError:
            pass  # it has ended by itself
        node_processes.end_node(node.session, node.pid, fork_server)

    def list_all_nodes(self) -> list[Node]:
        """List the nodes, the head first."""
        return [*([self.head_node] if self.head_node is not None else []), *self.worker_nodes]

    def wait_for_nodes(self, timeout: float = WAIT_SECONDS) -> None:
        """Wait until the head lists exactly the nodes of this object.

        Args:
            timeout: seconds.  Default: 30.

        Raises:
            TimeoutError: the lists still differ after that time.
        """
        assert self.head_node is not None, "there is no head"
        wanted = {node.node_id for node in self.list_all_nodes()}
        deadline = time.monotonic() + timeout
        with control.Control(self.head_node.session, self.head_node.pid) as link:
            while True:
                found = {fact.node.partition("/")[0] for fact in link.nodes() if fact.kind != "driver"}
                if found == wanted:
                    return
                if time.monotonic() > deadline:
                    raise TimeoutError(f"After {timeout:g} s the cluster has the nodes {found}, not {wanted}.")
                time.sleep(POLL_SECONDS)

    def shutdown(self) -> None:
        """End all nodes, the head last.  A second call does nothing."""
        for node in reversed(self.list_all_nodes()):
            self.remove_node(node)
