"""A node that is asked why something is not there yet."""

from tests.roles.desk import DRIVER, Desk
from zray.ids import return_id
from zray.wire.actors import CreateActor
from zray.wire.reasons import Explain, ExplainReply
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import SubmitTasks, WaitObjects


class Node(Desk):
    """A desk that is asked."""

    def __init__(self, cpus=1, *, is_embedded=True):
        super().__init__(cpus)
        self.scheduler.is_embedded = is_embedded
        self.request = 0

    def ask(self, *object_ids, by=DRIVER, left_out=0):
        self.take_sent()
        self.request += 1
        self.tell(by, Explain(self.request, list(object_ids), left_out))
        return self.heard(by)

    def heard(self, by=DRIVER):
        """The lines of the answer; None: there is none yet."""
        replies = [message for target, message in self.take_sent(ExplainReply) if target == by]
        assert len(replies) <= 1
        return replies[0].lines if replies else None

    def run_task(self, name="f", deps=(), cpus=1.0, by=DRIVER):
        """Submit one; the id of what it returns."""
        spec = self.new_spec(deps)
        spec.options = encode_options(TaskOptions(resources={"CPU": int(cpus * RESOURCE_UNIT)}, name=name))
        self.tell(by, SubmitTasks([spec]))
        return return_id(spec.task_id, 1)

    def create(self, name="Counter", cpus=0.0, **options):
        spec = self.new_spec()
        resources = {"CPU": int(cpus * RESOURCE_UNIT)} if cpus else {}
        self.tell(DRIVER, CreateActor(spec, ActorOptions(resources=resources, class_name=name, **options)))
        return spec.task_id

    def call(self, actor_id, deps=(), by=DRIVER, **options):
        spec = self.new_spec(deps)
        spec.function_id = b""
        spec.options = encode_options(
            TaskOptions(resources={}, name="Counter.add", actor_id=actor_id, method="add", **options)
        )
        self.tell(by, SubmitTasks([spec]))
        return return_id(spec.task_id, 1)

    def block(self, worker, *object_ids):
        self.tell(worker, WaitObjects(1, list(object_ids), len(object_ids), True, True))


def ref(object_id):
    return f"ObjectRef({object_id.hex()})"
