"""Breakpoints on other nodes: `zray debug` reaches them through an actor of the node."""

import pytest

import zray
from cli.breakpoints import RemoteLine, on_nodes
from tests.cli.debuggers import said, the_breakpoint
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@zray.remote
def double(number):
    result = 2 * number
    breakpoint()
    return result


def test_breakpoint_on_another_node_is_reached_through_the_node(cluster):
    cluster.connect()
    node = zray.nodes()[-1]["NodeID"]
    there = double.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    refs = [there.remote(4)]
    the_breakpoint("double")
    found, silent = on_nodes([node])
    assert [place.name for place in found] == ["double"]
    assert not silent
    output = said(RemoteLine(found[0]), "p result", "!result = 70", "c")
    assert "(zray-pdb) 8\n" in output
    assert zray.get(refs) == [70]
    assert on_nodes([node]) == ([], [])
    with pytest.raises(Exception, match="does not stand at its breakpoint any more"):
        RemoteLine(found[0])
