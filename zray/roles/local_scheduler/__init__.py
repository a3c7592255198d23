"""The local scheduler: one per node (Ray paper 4.2.2).

A package imports only from those below it (`setup.cfg`):

    scheduler       construction, the order of a turn, ends of jobs and processes
    reporting       explanations of waits, lists of tasks and actors, notices, output of workers
    membership      the lease, suspension after its end, drain
    actors          actors that live on the node: creation, calls, restarts, failover, moves, ends
    tasks           tasks that run on the node: submission, dispatch, workers, lent CPUs, code, cancel, fate sharing
    forwarding      tasks that another node is to run: decision to spill, placement, stealing, results
    actor_logs      logs of actors that recover: call log, backups on other nodes, replay, output commit
    groups          placement groups: bundles on the node, groups that the node keeps
    routes          routes to actors of other nodes, and their names
    objects         objects: values, references, copies elsewhere, waits, lineage, reconstruction
    tables, task    records: processes, jobs, queues, workers, actors; the task and its states
"""

from .scheduler import LocalScheduler

__all__ = ["LocalScheduler"]
