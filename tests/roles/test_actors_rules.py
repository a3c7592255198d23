"""Actors of one node, among its tasks: every order of making, calling, waiting, dying, killing and letting go."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER
from tests.roles.test_local_scheduler import SchedulerMachine
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler.actor_logs.journals import DEATHS_MAX
from zray.roles.local_scheduler.tasks.pool import START_FAILURES_MAX
from zray.wire.actors import KillActor
from zray.wire.objects import ReleaseObjects
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions

CALLERS = [b"one", b"two"]


class Call:
    """As its caller has it."""

    def __init__(self, spec, caller, retries):
        self.spec = spec
        self.caller = caller
        self.retries = retries  # that are left
        self.has_begun = False
        self.is_answered = False


class Known:
    """An actor as its users have it."""

    def __init__(self, options):
        self.options = options
        self.restarts = 0
        self.deaths = 0  # in a row, of one that recovers
        self.calls = []
        self.is_dead = False
        self.effects = []  # calls that its state is to have
        self.is_out_of_order = False  # a call was asked to run again, while others were on their way

    def open_calls(self):
        return [call for call in self.calls if not call.is_answered]

    def die(self):
        self.is_dead = True
        for call in self.calls:
            call.is_answered = True


class ActorsMachine(SchedulerMachine):
    """The model: who is dead, and which calls are answered."""

    def __init__(self):
        super().__init__()
        self.desk = ActorDesk(cpus=2)
        self.known = {}  # actor -> Known
        self.owners = {}  # call's task -> (Known, Call)
        self.began_seen = 0

    def _handle(self, actor_id):
        return return_id(actor_id, 1)

    def _held(self):
        return [actor_id for actor_id in self.known if self._handle(actor_id) in self.refs]

    submit_again = result_again = time_passes = wait = cancel = None  # rules of the plain machine that are tried there

    @precondition(lambda self: len(self.specs) < 5)
    @rule(data=st.data(), count=st.integers(1, 2))
    def submit(self, data, count):
        SchedulerMachine.submit(self, data, count)

    @precondition(lambda self: len(self.refs) > 2)
    @rule(data=st.data())
    def let_go(self, data):
        SchedulerMachine.let_go(self, data)

    # --- making ---

    @initialize(recovers=st.booleans(), restarts=st.sampled_from([0, 1, -1]), threads=st.integers(1, 2))
    def begin(self, recovers, restarts, threads):
        self._create([], 0, restarts, threads, "", False, 0 if recovers else -1, True)

    @precondition(lambda self: len(self.known) < 4)
    @rule(
        data=st.data(),
        cpus=st.sampled_from([0, 0, 1]),
        restarts=st.sampled_from([0, 1, 2, -1]),
        threads=st.sampled_from([1, 1, 2]),
        name=st.sampled_from(["", "", "a", "b"]),
        detached=st.booleans(),
        interval=st.sampled_from([-1, -1, 0]),
        comes_up=st.sampled_from([True, True, False]),
    )
    def create(self, data, cpus, restarts, threads, name, detached, interval, comes_up):
        deps = data.draw(st.lists(st.sampled_from(self.refs), max_size=1)) if self.refs else []
        self._create(deps, cpus, restarts, threads, name, detached, interval, comes_up)

    def _create(self, deps, cpus, restarts, threads, name, detached, interval, comes_up):
        recovers = interval >= 0
        options = ActorOptions(
            {"CPU": RESOURCE_UNIT} if cpus else {},
            max_restarts=-1 if recovers else restarts,
            max_concurrency=1 if recovers else threads,
            name=name,
            detached=bool(name) and detached,
            class_name="A",
            checkpoint_interval=interval,
        )
        actor_id = b"actor" + len(self.known).to_bytes(11, "big")
        self.known[actor_id] = Known(options)
        self.refs.append(self.desk.create(actor_id, options, deps))
        if comes_up:
            while self.desk.registering:
                self._answer_name()
            while self.desk.starting:
                self.desk.give_birth()
            for worker in self._young():
                self.desk.construct(worker)

    @precondition(lambda self: self.desk.registering)
    @rule()
    def name_comes(self):
        self._answer_name()

    def _answer_name(self):
        message = self.desk.registering[0]
        holder = self.desk.names.get(getattr(message, "options", None) and message.options.name)
        if hasattr(message, "options") and holder not in (None, message.actor_id):
            self.known[message.actor_id].die()
        self.desk.answer_name()

    def _young(self):
        return [worker for worker, process in self.desk.actors.items() if self._is_young(process)]

    @staticmethod
    def _is_young(process):
        return not process.is_constructed and not process.has_ended

    @precondition(lambda self: self._young())
    @rule(data=st.data())
    def constructor_raises(self, data):
        worker = data.draw(st.sampled_from(self._young()))
        self.known[self.desk.actors[worker].actor_id].die()
        self.desk.construct(worker, error=b"\1")

    # --- calls ---

    @precondition(lambda self: self._held())
    @rule(
        data=st.data(),
        count=st.integers(1, 3),
        caller=st.sampled_from(CALLERS),
        retries=st.sampled_from([0, 1, -1]),
        begun=st.integers(0, 2),
    )
    def call(self, data, count, caller, retries, begun):
        actor_id = data.draw(st.sampled_from(self._held()))
        known, handle = self.known[actor_id], self._handle(actor_id)
        recovers = known.options.checkpoint_interval >= 0
        if recovers:
            retries = -1
        specs = []
        for _ in range(count):
            refs = self.refs + [return_id(spec.task_id, 1) for spec in specs]
            # What one that recovers has been given it may have to be given once more: handles of actors may be cycles.
            refs = [ref for ref in refs if not recovers or not ref.startswith(b"actor")]
            deps = data.draw(st.lists(st.sampled_from(refs), max_size=1)) if refs else []
            holds = [handle] if not recovers and data.draw(st.booleans()) else []
            specs.append(self.desk.new_call(caller, actor_id, deps=deps, holds=holds, retries=retries))
        for spec in specs:
            call = Call(spec, caller, retries)
            call.is_answered = known.is_dead
            known.calls.append(call)
            self.owners[spec.task_id] = (known, call)
        self.refs += self.desk.submit(*specs)
        for worker in self._able()[:begun]:
            self.desk.begin_call(worker)

    def _able(self):
        return [worker for worker in self.desk.actors if self.desk.can_begin(worker)]

    @precondition(lambda self: self.desk.actors)
    @rule(data=st.data(), count=st.integers(1, 6))
    def actors_go_on(self, data, count):
        for _ in range(count):
            steps = [(self.desk.construct, worker) for worker in self._young()]
            steps += [(self.desk.begin_call, worker) for worker in self._able()]
            steps += [(self._end_call, worker, spec) for worker, spec in self.desk.free_calls()]
            if steps:
                step, *what = data.draw(st.sampled_from(steps))
                step(*what)

    def _end_call(self, worker, spec, *, wants_retry=False):
        known, call = self.owners[spec.task_id]
        if not known.is_dead:
            known.effects.append(spec.task_id)
            known.deaths = 0
            if wants_retry and call.retries:
                call.retries -= call.retries > 0
                known.is_out_of_order = True
            else:
                call.is_answered = True
        self.desk.end_call(worker, spec, wants_retry=wants_retry)
        self.finished.append((worker, spec))

    @precondition(lambda self: self.desk.free_calls())
    @rule(data=st.data(), leaves=st.booleans())
    def call_raises(self, data, leaves):
        """It is to run again, if it may; or the actor leaves by it."""
        worker, spec = data.draw(st.sampled_from(self.desk.free_calls()))
        self._end_call(worker, spec, wants_retry=not leaves)
        if leaves:
            self.known[self.desk.actors[worker].actor_id].die()
            self.desk.exit(worker)

    @precondition(lambda self: self.desk.free_calls())
    @rule(data=st.data())
    def call_waits(self, data):
        worker, spec = data.draw(st.sampled_from(self.desk.free_calls()))
        ids = data.draw(st.lists(st.sampled_from(self.refs), min_size=1, max_size=2, unique=True)) if self.refs else []
        if ids:
            self.request += 1
            self.desk.wait(worker, spec, self.request, ids)

    def _savers(self):
        actors = [(w, p) for w, p in self.desk.actors.items() if p.order.options.checkpoint_interval >= 0]
        return [w for w, p in actors if p.is_constructed and not p.running and not p.has_ended and p.state]

    @precondition(lambda self: self._savers())
    @rule(data=st.data())
    def actor_saves(self, data):
        self.desk.save(data.draw(st.sampled_from(self._savers())))

    # --- ends ---

    def _dies(self, worker):
        """What the death of its process does to an actor."""
        process = self.desk.actors[worker]
        known = self.known[process.actor_id]
        if known.is_dead:
            return
        limit = known.options.max_restarts
        recovers = known.options.checkpoint_interval >= 0
        known.deaths += recovers and not process.is_told_to_stop and bool(process.running or not process.is_constructed)
        if process.is_told_to_stop or 0 <= limit <= known.restarts or known.deaths == DEATHS_MAX:
            known.die()
            return
        known.restarts += 1
        for spec in process.running:
            call = self.owners[spec.task_id][1]
            if call.retries:
                call.retries -= call.retries > 0
            else:
                call.is_answered = True

    @precondition(lambda self: self.desk.queues.keys() - self.desk.actors)
    @rule(data=st.data())
    def worker_dies(self, data):
        self.desk.kill(data.draw(st.sampled_from(sorted(self.desk.queues.keys() - self.desk.actors))))

    @precondition(lambda self: self.desk.actors)
    @rule(data=st.data())
    def actor_dies(self, data):
        """Its process; another one stands by."""
        worker = data.draw(st.sampled_from(sorted(self.desk.actors)))
        self._dies(worker)
        self.desk.kill(worker)
        if self.desk.starting:
            self.desk.give_birth()

    @precondition(lambda self: self._held())
    @rule(data=st.data(), no_restart=st.sampled_from([False, False, True]))
    def kill(self, data, no_restart):
        actor_id = data.draw(st.sampled_from(self._held()))
        serving = [w for w, process in self.desk.actors.items() if process.actor_id == actor_id]
        was_dead = self.known[actor_id].is_dead
        if no_restart:
            self.known[actor_id].die()
        self.desk.tell(DRIVER, KillActor(actor_id, no_restart))
        assert was_dead or set(serving) <= set(self.desk.killed), "its process lives on"

    @precondition(lambda self: any(self.desk.queues.values()))
    @rule(data=st.data())
    def worker_goes_on(self, data):
        workers = [w for w, queue in self.desk.queues.items() if queue and w not in self.desk.actors]
        if workers:
            worker = data.draw(st.sampled_from(workers))
            spec = self.desk.finish_one(worker)
            if spec is not None:
                self.finished.append((worker, spec))

    @precondition(lambda self: self.desk.starting and self.desk.scheduler.calls.wanting)
    @rule()
    def worker_fails_to_start(self):
        if self.desk.scheduler.pool.failures < START_FAILURES_MAX:
            order = self.desk.starting.pop(0)
            self.desk.tell("host", e.WorkerStartFailed(order.worker, "no memory"))

    # --- what is true ---

    @invariant()
    def answers_agree(self):
        tasks = self.desk.scheduler.tasks
        self._note_ends()
        for known in self.known.values():
            for call in known.calls:
                task_id = call.spec.task_id
                assert (task_id not in tasks) == call.is_answered, "a call is answered too early, or not at all"
                times = self.desk.pushes[return_id(task_id, 1)]
                assert times <= call.is_answered, "a call is answered twice"
                if return_id(task_id, 1) in self.refs:
                    assert times == call.is_answered, "an answer did not reach its caller"

    def _note_ends(self):
        """Who has no handle any more is dead when nothing is left to do."""
        actors, entries = self.desk.scheduler.calls.actors, self.desk.scheduler.objects.entries
        serving = {process.actor_id: process for process in self.desk.actors.values()}
        for actor_id, known in self.known.items():
            if known.is_dead:
                assert actor_id not in actors, "a dead actor is still there"
                continue
            is_left = self._handle(actor_id) not in entries and not known.options.detached
            if is_left and not known.open_calls():
                process = serving.get(actor_id)
                if process is None or actor_id not in actors:
                    known.is_dead = True
                elif process.is_constructed:
                    assert process.is_told_to_stop, "an actor without handles stays"
            assert (actor_id in actors) != known.is_dead, "an actor is gone too early, or not at all"

    @invariant()
    def order_holds(self):
        """The calls of a caller begin in its order, each as often as it may."""
        for _, _, spec in self.desk.began[self.began_seen :]:
            known, call = self.owners[spec.task_id]
            earlier = [other for other in known.calls if other.caller == call.caller]
            earlier = earlier[: earlier.index(call)]
            if not known.is_out_of_order and not known.is_dead:
                assert all(other.has_begun or other.is_answered for other in earlier), "a call overtook another"
            call.has_begun = True
        self.began_seen = len(self.desk.began)

    @invariant()
    def states_agree(self):
        """One that recovers is in the state that all its calls have made."""
        for process in self.desk.actors.values():
            known = self.known[process.actor_id]
            if known.options.checkpoint_interval >= 0 and not known.is_dead:
                assert process.state == known.effects

    @invariant()
    def lives_agree(self):
        cpus = 0
        for worker, process in self.desk.actors.items():
            known, order = self.known[process.actor_id], process.order
            is_blocked = bool(process.waits) and order.options.max_concurrency == 1
            cpus += order.options.resources.get("CPU", 0) * (not is_blocked)
            if not known.is_dead and worker not in self.desk.killed:
                assert order.restart_count == known.restarts
        running = sum(
            1 for w, q in self.desk.queues.items() if q and w not in self.desk.actors and self.desk.windows[w]
        )
        assert cpus + running * RESOURCE_UNIT <= 2 * RESOURCE_UNIT, "more CPUs than there are"
        for known in self.known.values():
            assert known.is_dead or 0 > known.options.max_restarts or known.restarts <= known.options.max_restarts

    def teardown(self):
        desk, scheduler = self.desk, self.desk.scheduler
        desk.settle()
        for actor_id, known in self.known.items():
            if known.options.detached or known.options.resources:  # tasks that hold its handle may want its CPU
                desk.tell(DRIVER, KillActor(actor_id))
        desk.tell(DRIVER, ReleaseObjects(self.refs))
        desk.settle()
        assert not scheduler.tasks
        assert not scheduler.calls.actors
        assert not scheduler.calls.wanting
        assert not any(scheduler.calls.promised.values())
        assert not desk.actors
        assert not scheduler.objects.entries
        assert scheduler.resources.all_free()
        assert not scheduler.processes[DRIVER].wait_by_request
        assert not desk.names


ActorsMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)
TestActors = ActorsMachine.TestCase
