"""A local scheduler on a desk: its effects are performed by hand, one message at a time."""

from tests.roles.timers import Timers
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler import LocalScheduler
from zray.roles.local_scheduler.addresses import Addresses
from zray.roles.work_effects import InterruptWorker
from zray.wire.gcs import HoldAtNode, HoldAtNodeReply, RecordTasks, RecordTasksReply
from zray.wire.task_spec import RESOURCE_UNIT, TaskSpec
from zray.wire.tasks import Function, PublishFunction, StartTasks, SubmitTasks, TaskResult, TasksFinished, TasksReturned

JOB = b"job-0001"
FUNCTION = b"function" * 2
DRIVER = "driver-1"


class Desk:
    """One node of `cpus` CPUs with one driver; workers do as they are told."""

    def __init__(self, cpus=2, gpus=0, gpu_names=()):
        addresses = Addresses("objects", ["global"], ["gcs-0"], "monitor")
        total = {"CPU": cpus * RESOURCE_UNIT, "GPU": gpus * RESOURCE_UNIT}
        total = {name: amount for name, amount in total.items() if amount or name == "CPU"}
        self.scheduler = LocalScheduler("local", addresses, total=total, gpu_names=gpu_names)
        self.now = 0.0
        self.sent = []  # (destination, message) since the last look
        self.starting = []  # StartWorker effects
        self.queues = {}  # worker -> specs that it was sent
        self.windows = {}
        self.killed = []
        self.interrupted = []  # workers, once a signal
        self.timers = Timers()
        self.count = 0
        self.tell("host", e.ProcessJoined(DRIVER, "driver", 1, JOB))
        self.tell(DRIVER, PublishFunction(Function(FUNCTION, "f", b"code")))

    def tell(self, sender, message):
        """One turn with one message."""
        self.now += 1e-4
        self._perform(self.scheduler.handle(sender, message, self.now))
        self._perform(self.scheduler.first_words(self.now))
        self._perform(self.scheduler.end_turn(self.now))
        self.scheduler.check_everything()

    def join_cluster(self):
        """Register; the node reports from now on."""
        self.scheduler.members.start()
        self._perform(self.scheduler.take_effects())

    def timer(self, name, *, stays=False):
        """Fire a timer that is set, as in Timers."""
        self.tell("timer", self.timers.take(name, stays=stays))

    def _perform(self, effects):
        self.timers.note(effects)
        for effect in effects:
            if type(effect) is e.Send:
                self.sent.append((effect.destination, effect.message))
                if type(effect.message) is StartTasks:
                    self.queues[effect.destination].extend(effect.message.specs)
            elif type(effect) is e.StartWorker:
                self.starting.append(effect)
            elif type(effect) is e.KillWorker:
                self.killed.append(effect.worker)
            elif type(effect) is InterruptWorker:
                self.interrupted.append(effect.worker)
            elif type(effect) is e.OpenWindow:
                self.windows[effect.worker] += effect.count
            elif type(effect) is e.ReclaimTasks:
                count = min(effect.count, self.windows[effect.worker])
                self.windows[effect.worker] -= count
                outcome = e.TasksReclaimed(effect.worker, count, effect.sought)
                self._perform(self.scheduler.handle("host", outcome, self.now))

    def take_sent(self, kind=None):
        """What was sent since the last look; kind: only such messages."""
        sent, self.sent = self.sent, []
        return [(target, message) for target, message in sent if kind is None or type(message) is kind]

    def tasks_in(self, *states):
        """Ids of the tasks in these states."""
        return [task_id for task_id, task in self.scheduler.tasks.items() if task.state in states]

    def workers_in(self, *states):
        """Workers in these states, by their addresses."""
        return [address for address, worker in self.scheduler.pool.workers.items() if worker.state in states]

    def top(self, worker):
        """The top level of a worker's stack."""
        return self.scheduler.pool.workers[worker].frames[-1]

    def workers_at(self, *states):
        """Workers whose top levels are in these states, by their addresses."""
        workers = self.scheduler.pool.workers
        return [address for address in workers if workers[address].frames and self.top(address).state in states]

    def inflight(self, worker):
        """How many tasks the worker has been sent that have not ended."""
        return len(self.scheduler.pool.workers[worker].inflight)

    # --- what the others do ---

    def shards_acknowledge(self):
        """Have the shards acknowledge all that they were told so far."""
        for request, expected in list(self.scheduler.acks.expected.items()):
            for _ in range(expected.count):
                self.tell("gcs-0", RecordTasksReply(request))

    def new_spec(self, deps=(), holds=()):
        """A task not submitted before."""
        self.count += 1
        return TaskSpec(self.count.to_bytes(16, "big"), FUNCTION, deps=tuple(deps), holds=tuple(holds))

    def submit(self, *specs):
        """By the driver.  Returns the ids of the first returns."""
        self.tell(DRIVER, SubmitTasks(list(specs)))
        return [return_id(spec.task_id, 1) for spec in specs]

    def give_birth(self):
        """The worker ordered first says Hello."""
        order = self.starting.pop(0)
        self.queues[order.worker] = []
        self.windows[order.worker] = 0
        self.tell("host", e.WorkerStarted(order.worker, 100 + order.worker_id))
        self.tell("host", e.ProcessJoined(order.worker, "worker", 100 + order.worker_id, b"", order.worker_id))
        return order.worker

    def finish_one(self, worker, value=b"\x01"):
        """The worker claims its next task and runs it; or finds that the rest is not its own."""
        queue = self.queues[worker]
        if not self.windows[worker]:
            self.queues[worker] = []
            self.tell(worker, TasksReturned([spec.task_id for spec in queue], True))
            return None
        self.windows[worker] -= 1
        spec = queue.pop(0)
        self.tell(worker, TasksFinished([TaskResult(spec.task_id, [value])]))
        return spec

    def kill(self, worker):
        """It dies, and what it had begun last with it."""
        del self.queues[worker]
        unclaimed = self.windows.pop(worker)
        self.tell("host", e.WorkerExited(worker, "killed by signal 9", unclaimed))

    def run_all(self):
        """Until there is nothing to do."""
        for _ in range(10_000):
            busy = [worker for worker, queue in self.queues.items() if queue]
            if self.starting:
                self.give_birth()
            elif busy:
                self.finish_one(busy[0])
            else:
                return
        raise AssertionError("it never ends")


class Acknowledged:
    """A desk of a cluster of these nodes, whose shard acknowledges at once, when what was said is heard."""

    def join(self, *nodes):
        self.scheduler.is_embedded = False
        for node in nodes:
            self.scheduler.members.peers[node] = {}
        self.told = []  # of the shard

    def heard(self):
        """What was said to others, when the shard has answered all."""
        others = []
        while sent := self.take_sent():
            for target, message in sent:
                if target != "gcs-0":
                    others.append((target, message))
                    continue
                self.told.append(message)
                if type(message) is HoldAtNode and message.request:
                    self.tell("gcs-0", HoldAtNodeReply(message.request))
                elif type(message) is RecordTasks and message.request:
                    self.tell("gcs-0", RecordTasksReply(message.request))
        return others
