"""Where bundles go: against a dumb version that tries everything."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from zray.wire.bundles import plan
from zray.wire.groups import PACK, SPREAD, STRATEGIES, STRICT_PACK, STRICT_SPREAD

amounts = st.fixed_dictionaries({}, optional={"CPU": st.integers(1, 3), "disk": st.integers(1, 2)})
rooms = st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), amounts).map(lambda found: list(found.items()))
bundles = st.lists(amounts, min_size=1, max_size=4).map(lambda found: list(enumerate(found)))


def fits(found, having, wanted):
    """Whether what goes to each node is there."""
    free = {node: dict(amount) for node, amount in having}
    for (_, amount), node in zip(wanted, found, strict=True):
        for name, count in amount.items():
            free[node][name] = free[node].get(name, 0) - count
    return all(count >= 0 for amount in free.values() for count in amount.values())


def meets(found, strategy):
    if strategy == STRICT_PACK:
        return len(set(found)) == 1
    return strategy != STRICT_SPREAD or len(set(found)) == len(found)


@settings(deadline=None, derandomize=True, max_examples=500)
@given(rooms, bundles, st.sampled_from(STRATEGIES))
def test_a_way_is_found_where_there_is_one(having, wanted, strategy):
    nodes = [node for node, _ in having]
    ways = [way for way in product(nodes, repeat=len(wanted)) if fits(way, having, wanted) and meets(way, strategy)]
    found, is_certain = plan(having, wanted, strategy, [])
    assert is_certain
    if not ways:
        assert found is None
        return
    assert found is not None
    assert [index for index, _ in found] == [index for index, _ in wanted]
    assert tuple(node for _, node in found) in ways


def test_packed_on_few_and_spread_over_many():
    having = [("n1", {"CPU": 4}), ("n2", {"CPU": 4}), ("n3", {"CPU": 2})]
    wanted = [(number, {"CPU": 1}) for number in range(4)]
    assert len({node for _, node in plan(having, wanted, PACK, [])[0]}) == 1
    assert len({node for _, node in plan(having, wanted, SPREAD, [])[0]}) == 3


def test_free_memory_does_not_count_for_a_bundle_of_cpus():
    """Memory is in bytes: the node with the most of it, and one CPU, was the first choice of all."""
    having = [("small", {"CPU": 1, "memory": 10**12}), ("large", {"CPU": 2, "memory": 10**9})]
    found, _ = plan(having, [(0, {"CPU": 1}), (1, {"CPU": 1})], PACK, [])
    assert found == [(0, "large"), (1, "large")]


def test_a_bundle_that_lost_its_node_goes_where_the_strategy_says():
    having = [("n1", {"CPU": 4}), ("n2", {"CPU": 4}), ("n3", {"CPU": 4})]
    wanted = [(1, {"CPU": 1})]
    assert plan(having, wanted, PACK, ["n2"])[0] == [(1, "n2")]
    assert plan(having, wanted, SPREAD, ["n1", "n2"])[0] == [(1, "n3")]
    assert plan(having, wanted, STRICT_SPREAD, ["n1", "n3"])[0] == [(1, "n2")]
    assert plan(having, wanted, STRICT_SPREAD, ["n1", "n2", "n3"])[0] is None


def test_many_bundles_are_no_long_search():
    having = [(f"n{number}", {"CPU": 3}) for number in range(20)]
    wanted = [(number, {"CPU": 2}) for number in range(21)]
    assert plan(having, wanted, PACK, []) == (None, False)
