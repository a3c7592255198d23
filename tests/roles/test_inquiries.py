"""What a host asks a global scheduler for its processes is answered, whichever of them is killed meanwhile."""

from zray.roles import inquiries as inquiries_module
from zray.roles.effects import Send
from zray.roles.inquiries import Inquiries
from zray.wire.hosts import GetNodes, NodesReply


def test_what_one_that_is_gone_was_asked_is_asked_of_another():
    inquiries, answers = Inquiries(), []
    assert inquiries.ask("a/global", GetNodes(7, True), answers.append) == Send("a/global", GetNodes(1, True))
    assert inquiries.ask("b/global", GetNodes(8), answers.append) == Send("b/global", GetNodes(2))
    assert inquiries.ask_again("b/global", "a/global") == [Send("b/global", GetNodes(1, True))]
    assert inquiries.ask_again("c/global", "a/global") == []
    for _ in range(2):  # the first one may have answered as it was killed
        inquiries.answered(NodesReply(1, []))
    assert answers == [NodesReply(7, [])]
    assert inquiries.ask_again("c/global") == [Send("c/global", GetNodes(2))]
    inquiries.answered(NodesReply(2, []))
    assert answers[1:] == [NodesReply(8, [])] and not inquiries.open


def test_so_many_wait_and_no_more(monkeypatch):
    monkeypatch.setattr(inquiries_module, "INQUIRIES_MAX", 2)
    inquiries = Inquiries()
    for number in range(5):
        inquiries.ask("a/global", GetNodes(number), lambda reply: None)
    assert [inquiry.asked.request for inquiry in inquiries.open.values()] == [3, 4]
