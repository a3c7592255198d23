"""A desk with actors: their processes run the real task executor, and what they run is written down."""

from collections import Counter, deque

from tests.roles.desk import DRIVER, FUNCTION, Desk
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.task_executor import TaskExecutor
from zray.wire.actors import (
    ActorExited,
    ActorNameTaken,
    ActorRegistered,
    ActorRemoved,
    ActorSaved,
    ActorStarted,
    ActorStartFailed,
    CreateActor,
    RegisterActor,
    StartActor,
)
from zray.wire.objects import PutObject, PutObjects, ReleaseObjects
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import CancelWait, ObjectsReady, StartTasks, StopWorker, WaitObjects, WaitReply

SHARD = "gcs-0"


class ActorProcess:
    """A worker that has become an actor.  Its state is the list of the calls that it has run."""

    def __init__(self, order):
        self.order = order
        self.actor_id = order.spec.task_id
        self.executor = TaskExecutor()
        self.executor.on_start_tasks(StartTasks([], arguments=order.arguments))
        self.is_constructed = False
        self.is_told_to_stop = False
        self.has_ended = False  # it has said so
        self.running = []  # calls, in the order in which they began
        self.waits = {}  # call that waits -> the request
        self.state = []


class ActorDesk(Desk):
    """Beside workers of tasks, those of actors; the shard gives names out."""

    def __init__(self, cpus=2, gpus=0):
        self.actors = {}  # worker -> ActorProcess
        self.began = []  # (actor, life, spec) in the order in which calls began
        self.names = {}  # name -> actor
        self.registering = deque()
        self.pushes = Counter()  # object -> how often the driver was sent its value
        self.saved = {}  # checkpoint -> state
        self.put_count = 0
        super().__init__(cpus, gpus)

    def _perform(self, effects):
        for effect in effects:
            if type(effect) is not e.Send:
                super()._perform([effect])
                continue
            target, message = effect.destination, effect.message
            process = self.actors.get(target)
            if type(message) is StartActor:
                self._becomes(target, message)
            elif process is not None and type(message) is StartTasks:
                process.executor.on_start_tasks(message)
                self.queues[target] = process.executor.queue
                self.sent.append((target, message))
                continue
            elif type(message) is StopWorker:
                process.is_told_to_stop = True
            elif type(message) in (RegisterActor, ActorRemoved):
                self.registering.append(message)
            elif target == DRIVER and type(message) is ObjectsReady:
                self.pushes.update(object_id for object_id, _ in message.objects)
            elif process is not None and type(message) is WaitReply:
                process.waits = {call: number for call, number in process.waits.items() if number != message.request}
            super()._perform([effect])

    def _becomes(self, worker, order):
        """At most one process of an actor, but for those that are as good as dead."""
        for other, process in self.actors.items():
            if process.actor_id == order.spec.task_id:
                assert other in self.killed, "two processes for one actor"
        process = self.actors[worker] = ActorProcess(order)
        self.queues[worker] = process.executor.queue
        process.state = list(self.saved[order.checkpoint]) if order.checkpoint else []
        assert len(process.state) == order.call_count
        process.state += [spec.task_id for spec in order.calls]

    # --- the driver ---

    def create(self, actor_id, options, deps=(), sender=DRIVER):
        spec = TaskSpec(actor_id, FUNCTION, deps=tuple(deps))
        self.tell(sender, CreateActor(spec, options))
        return return_id(actor_id, 1)

    def new_call(self, caller, actor_id, *, deps=(), holds=(), retries=0, by_actor=b""):
        """caller: of whom this is the next call."""
        self.count += 1
        options = encode_options(TaskOptions({}, actor_id=actor_id, method="m", max_retries=retries))
        task_id = caller.ljust(10, b"\0") + self.count.to_bytes(6, "big")
        return TaskSpec(task_id, b"", deps=tuple(deps), holds=tuple(holds), options=options, caller=by_actor)

    # --- the shard ---

    def answer_name(self):
        """The question, or the end, that came first."""
        message = self.registering.popleft()
        if type(message) is ActorRemoved:
            self.names = {name: actor for name, actor in self.names.items() if actor != message.actor_id}
            return
        holder = self.names.setdefault(message.options.name, message.actor_id)
        is_own = holder == message.actor_id
        answer = ActorRegistered(message.actor_id) if is_own else ActorNameTaken(message.actor_id, holder)
        self.tell(SHARD, answer)

    # --- actors' processes ---

    def construct(self, worker, *, error=b""):
        """The constructor ends."""
        process = self.actors[worker]
        process.is_constructed = not error
        process.has_ended = bool(error)
        answer = ActorStartFailed(process.actor_id, error) if error else ActorStarted(process.actor_id)
        self.tell(worker, answer)

    def can_begin(self, worker):
        process = self.actors[worker]
        count_max = process.order.options.max_concurrency
        return process.is_constructed and process.executor.queue and len(process.running) < count_max

    def begin_call(self, worker):
        """Claim the next call; one that lacks an argument goes back.  Returns the one that runs now, if one does."""
        process = self.actors[worker]
        executor = process.executor
        assert self.windows[worker], "calls of actors are never taken back"
        self.windows[worker] -= 1
        spec = executor.queue.popleft()
        if executor.has_arguments(spec):
            process.running.append(spec)
            self.began.append((process.actor_id, worker, spec))
            return spec
        executor.give_back(spec)
        executor.done_with(spec)
        self._flush(worker)
        return None

    def end_call(self, worker, spec, *, wants_retry=False):
        """One that runs."""
        process = self.actors[worker]
        process.running.remove(spec)
        assert spec.task_id not in process.waits
        process.executor.finished(spec, [b"\1"], wants_retry=wants_retry)
        process.executor.done_with(spec)
        process.state.append(spec.task_id)
        self._flush(worker)

    def _flush(self, worker):
        for message in self.actors[worker].executor.take_messages():
            self.tell(worker, message)

    def save(self, worker):
        """A checkpoint: its object is the actor's own."""
        process = self.actors[worker]
        self.put_count += 1
        object_id = b"checkpoint" + self.put_count.to_bytes(10, "big")
        self.saved[object_id] = list(process.state)
        self.tell(worker, PutObjects([PutObject(object_id, b"\1")]))
        self.tell(worker, ActorSaved(process.actor_id, object_id, len(process.state)))
        self.tell(worker, ReleaseObjects([object_id]))

    def exit(self, worker):
        """exit_actor(), after the call's result."""
        process = self.actors[worker]
        process.has_ended = True
        self.tell(worker, ActorExited(process.actor_id, "The actor left by exit_actor()."))

    def kill(self, worker):
        self.actors.pop(worker, None)
        super().kill(worker)

    def finish_one(self, worker, value=b"\x01"):
        process = self.actors.get(worker)
        if process is None:
            return super().finish_one(worker, value)
        self.begin_call(worker)
        return None

    def settle(self):
        """Until there is nothing to do, actors and names included."""
        for _ in range(10_000):
            dying = [worker for worker in self.actors if self.is_dying(worker)]
            if dying:
                self.kill(dying[0])
            elif self.registering:
                self.answer_name()
            elif young := [w for w, process in self.actors.items() if not process.is_constructed]:
                self.construct(young[0])
            elif running := self.free_calls():
                self.end_call(*running[0])
            elif self.starting:
                self.give_birth()
            elif able := [
                w for w, queue in self.queues.items() if queue and (w not in self.actors or self.can_begin(w))
            ]:
                self.finish_one(able[0])
            elif waiting := [(w, n) for w, process in self.actors.items() for n in process.waits.values()]:
                self.tell(waiting[0][0], CancelWait(waiting[0][1]))
            else:
                return
        raise AssertionError("it never ends")

    def free_calls(self):
        """(worker, call) of those that run and wait for nothing."""
        pairs = [(worker, spec) for worker, process in self.actors.items() for spec in process.running]
        return [(worker, spec) for worker, spec in pairs if spec.task_id not in self.actors[worker].waits]

    def wait(self, worker, spec, request, object_ids):
        """A call that runs blocks its process, if that has one thread."""
        process = self.actors[worker]
        process.waits[spec.task_id] = request
        is_serial = process.order.options.max_concurrency == 1
        self.tell(worker, WaitObjects(request, object_ids, len(object_ids), True, is_serial))

    def is_dying(self, worker):
        """Whether its end is only a matter of time."""
        process = self.actors[worker]
        has_left = process.has_ended or (process.is_told_to_stop and not process.executor.queue)
        return worker in self.killed or has_left
