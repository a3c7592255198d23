"""Results of a worker leave together, unless they would wait long for those of the tasks behind."""

from collections import deque
from types import SimpleNamespace

import pytest

from zray.host.worker.main import RESULT_SECONDS, Worker

NOW = 100.0


class Stub(SimpleNamespace):
    """A worker that has ended tasks and has others in its queue; `sent` counts frames."""

    def flush(self):
        self.sent += 1

    def wait_for_room(self):
        pass

    def arm(self):
        self.is_armed = True

    def is_brief(self, spec):
        return spec == "brief"


def worker(ended, queued, waited, following="brief"):
    executor = SimpleNamespace(queue=deque([following] * queued), results=[None] * ended)
    return Stub(executor=executor, clock=NOW, sent_at=NOW - waited, is_armed=False, sent=0)


@pytest.mark.parametrize(
    ("ended", "queued", "waited", "following", "sent"),
    [
        (10, 100, 0.9, "brief", 0),  # more may come
        (10, 100, 1.1, "brief", 1),  # the others would take ten times as long
        (70, 58, 1.1, "brief", 0),  # the others take less
        (70, 70, 1.1, "brief", 0),
        (70, 71, 1.1, "brief", 1),
        (70, 58, 1.1, "long", 1),
        (1, 1, 0.1, "long", 1),
        (70, 0, 1.1, "brief", 0),  # the loop sends the last
    ],
)
def test_results_wait_for_company_that_comes_soon(ended, queued, waited, following, sent):
    made = worker(ended, queued, waited * RESULT_SECONDS, following)
    Worker.send_results_soon(made)
    assert made.sent == sent
    assert made.is_armed == (sent == 0 and queued > 0)  # the helper sends, if the next task takes long after all
    assert made.sent_at == (NOW if sent else NOW - waited * RESULT_SECONDS)
