"""Variants of search spaces: grids, distributions, dependencies."""

import numpy as np
import pytest

from zray import tune
from zray.tune.variants import RecursiveDependencyError, generate_variants, grid_count, has_unresolved_values, space_of


def test_first_key_of_a_grid_varies_fastest():
    space = {"beta": tune.grid_search([1, 2]), "alpha": tune.grid_search([0.2, 0.4, 0.6])}
    found = [(config["alpha"], config["beta"]) for _, config in generate_variants(space)]
    assert found == [(0.2, 1), (0.4, 1), (0.6, 1), (0.2, 2), (0.4, 2), (0.6, 2)]
    assert grid_count(space) == 6


def test_nested_dicts_lists_and_tuples_are_resolved():
    space = {"a": {"b": [tune.grid_search([1, 2]), 5]}, "c": (tune.choice([7]), "x")}
    found = list(generate_variants(space))
    assert [config for _, config in found] == [{"a": {"b": [1, 5]}, "c": (7, "x")}, {"a": {"b": [2, 5]}, "c": (7, "x")}]
    assert found[0][0] == {"a/b/0": 1, "c/0": 7}


def test_functions_see_values_that_are_drawn_or_computed():
    space = {
        "a": tune.sample_from(lambda spec: spec.config.b + 1),
        "b": lambda spec: spec.config["c"] * 10,
        "c": tune.grid_search([1, 2]),
    }
    assert [config for _, config in generate_variants(space)] == [
        {"a": 11, "b": 10, "c": 1},
        {"a": 21, "b": 20, "c": 2},
    ]


def test_other_lambdas_are_values():
    lambdas = [lambda: 1, lambda x: 1, lambda spec, more: 1, lambda *spec: 1, lambda **spec: 1, lambda spec, *more: 1]
    for each in lambdas:
        assert not has_unresolved_values({"f": each}), each.__code__.co_varnames
        ((_, config),) = generate_variants({"f": each, "nested": [{"f": each}]})
        assert config["f"] is config["nested"][0]["f"] is each


def test_lambdas_of_an_algorithm_are_values():
    class Algorithm:
        function_options = ("env_config",)

    space = {"env_config": {"f": [lambda spec: 5]}, "lr": lambda spec: 7, "n": tune.sample_from(lambda spec: 3)}
    ((chosen, config),) = generate_variants(space_of(Algorithm, space))
    assert config["env_config"]["f"][0](None) == 5 and chosen == {"lr": 7, "n": 3}
    ((chosen, _),) = generate_variants(space_of(None, space))
    assert chosen == {"env_config/f/0": 5, "lr": 7, "n": 3}


def twice(read):
    return tune.sample_from(lambda spec: read(spec.config) * 2)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ({"d": [3, twice(lambda config: config["d"][0])]}, {"d": [3, 6]}),
        ({"d": [tune.choice([4]), twice(lambda config: config["d"][0])]}, {"d": [4, 8]}),
        ({"d": (3, twice(lambda config: config.d[-3]), 5)}, {"d": (3, 6, 5)}),
        ({"d": [{"z": tune.choice([1]), "y": twice(lambda config: config["d"][0]["z"])}]}, {"d": [{"z": 1, "y": 2}]}),
        ({"d": [[1, twice(lambda config: config.d[0][0])]]}, {"d": [[1, 2]]}),
        ({"d": [twice(lambda config: config.d[1]), twice(lambda config: config.d[2]), 1]}, {"d": [4, 2, 1]}),
        ({"d": [7, 8, twice(lambda config: sum(config.d[:2]))]}, {"d": [7, 8, 30]}),
        ({"d": [7, twice(lambda config: len(config.d))]}, {"d": [7, 4]}),
        (
            {"a": twice(lambda config: sum(config.d)), "d": [1, twice(lambda config: config.d[0])]},
            {"a": 6, "d": [1, 2]},
        ),
        ({"a": twice(lambda config: config.d), "d": [1, twice(lambda config: 1)]}, {"a": [1, 2, 1, 2], "d": [1, 2]}),
        ({"a": twice(lambda config: config.d + [3]), "d": [twice(lambda _: 1)]}, {"a": [2, 3, 2, 3], "d": [2]}),
        (
            {"a": twice(lambda config: sum(config.d.values())), "d": {"x": 1, "y": twice(lambda config: config.d.x)}},
            {"a": 6, "d": {"x": 1, "y": 2}},
        ),
        (
            {"a": tune.sample_from(lambda spec: spec.config.d), "d": {"x": twice(lambda _: 1)}},
            {"a": {"x": 2}, "d": {"x": 2}},
        ),
        (
            {"a": tune.sample_from(lambda spec: list(spec.config.d.items())), "d": {"x": twice(lambda _: 1)}},
            {"a": [("x", 2)], "d": {"x": 2}},
        ),
    ],
)
def test_functions_see_their_neighbours_in_lists_and_dicts(space, expected):
    ((_, config),) = generate_variants(space)
    assert config == expected


def test_circle_in_a_list_is_an_error():
    space = {"d": [twice(lambda config: config.d[1]), twice(lambda config: config.d[0])]}
    with pytest.raises(RecursiveDependencyError, match="d/0, d/1"):
        list(generate_variants(space))


def test_circle_of_functions_is_an_error():
    space = {"a": lambda spec: spec.config.b, "b": lambda spec: spec.config.a}
    with pytest.raises(RecursiveDependencyError, match="a, b"):
        list(generate_variants(space))


def test_space_is_not_changed():
    space = {"a": {"b": tune.uniform(0, 1)}, "c": [1]}
    next(generate_variants(space))[1]["c"].append(2)
    assert space["c"] == [1]
    assert isinstance(space["a"]["b"], type(tune.uniform(0, 1)))


@pytest.mark.parametrize(
    "domain, is_right",
    [
        (tune.uniform(-1, 2), lambda x: -1 <= x <= 2 and isinstance(x, float)),
        (tune.quniform(0, 10, 2.5), lambda x: x in (0, 2.5, 5, 7.5, 10)),
        (tune.loguniform(1e-4, 1e-1), lambda x: 1e-4 <= x <= 1e-1),
        (tune.qloguniform(0.1, 10, 0.1), lambda x: 0.1 <= x <= 10 and abs(x * 10 - round(x * 10)) < 1e-9),
        (tune.randn(3, 0.1), lambda x: 2 < x < 4),
        (tune.qrandn(0, 1, 0.5), lambda x: x * 2 == round(x * 2)),
        (tune.randint(1, 4), lambda x: x in (1, 2, 3)),
        (tune.qrandint(0, 10, 5), lambda x: x in (0, 5, 10)),
        (tune.lograndint(1, 100), lambda x: 1 <= x < 100 and isinstance(x, int)),
        (tune.qlograndint(1, 100, 5), lambda x: x == 1 or x % 5 == 0),
        (tune.choice(["a", "b"]), lambda x: x in ("a", "b")),
    ],
)
def test_values_lie_in_their_domain(domain, is_right):
    drawn = [domain.draw(np.random.default_rng(seed)) for seed in range(300)]
    assert all(is_right(value) for value in drawn)
    assert len(set(drawn)) > 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: tune.uniform(2, 1),
        lambda: tune.loguniform(0, 1),
        lambda: tune.randint(3, 3),
        lambda: tune.choice([]),
        lambda: tune.quniform(0, 1, 0),
    ],
)
def test_domain_without_values_is_an_error(make):
    with pytest.raises(ValueError):
        make()


def test_empty_grid_is_an_error():
    with pytest.raises(ValueError, match="grid of x"):
        list(generate_variants({"x": tune.grid_search([])}))
