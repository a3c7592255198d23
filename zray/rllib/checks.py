"""Checks of an algorithm's details on a live batch: `algo.check()`.

The checks run on a copy of the algorithm, with its weights and filter.  Each recomputes a detail plainly, and compares.
An algorithm has the checks of all, and those under its name in `OF_ALGORITHM`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from .callbacks import DefaultCallbacks, Events
from .groups import Batch
from .masks import is_masked
from .policies import Policy
from .sequences import rows_of

__all__ = ["OF_ALGORITHM", "Check", "checked", "equal", "of_batch", "table"]

# Relative error of sums in 32 bits.
CLOSE = 1e-4
# Steps of an episode in the batch, so that it has truncated ones, and steps of its rollout.
HORIZON, STEPS = 5, 16


class Check(NamedTuple):
    """A detail, whether it holds, and the numbers that say so."""

    name: str
    holds: bool
    numbers: str


class LastObservations(DefaultCallbacks):
    """The last observation of each episode, by environment and number."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, list[tuple[Any, bool]]] = {}

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """Keep it."""
        self.found.setdefault(episode.env_id, []).append((episode.observation, episode.is_terminated))


def checked(algorithm: Any, verbose: bool = True) -> list[Check]:
    """The checks of an algorithm.

    Raises:
        AssertionError: one of them does not hold.
    """
    state = torch.get_rng_state()
    config = algorithm.algorithm_config.copy()
    config.env_runners(num_env_runners=0, num_groups=1, rollout_fragment_length=STEPS, batch_mode="truncate_episodes")
    config.environment(horizon=min(HORIZON, config["horizon"] or HORIZON))
    config.evaluation(evaluation_interval=0).callbacks(None).update_from_dict({"callbacks": None})
    if "learning_starts" in config:
        config.training(learning_starts=0)
    twin = config.build_algo()
    try:
        twin.set_weights(algorithm.get_weights())
        twin.policy.filter = copy.deepcopy(algorithm.policy.filter)
        of_learner = next(
            (OF_ALGORITHM[each.__name__] for each in type(twin).__mro__ if each.__name__ in OF_ALGORITHM), None
        )
        if hasattr(twin, "members"):
            from .agent_checks import of_agents

            found = [*of_agents(twin, STEPS, of_learner)]
        else:
            found = [*_of_rollouts(twin), *(of_learner(twin) if of_learner is not None else ())]
    finally:
        twin.stop()
        torch.set_rng_state(state)
    text = table(found)
    if verbose:
        print(text)
    assert all(check.holds for check in found), f"{type(algorithm).__name__}: a check does not hold.\n{text}"
    return found


def table(checks: list[Check]) -> str:
    """The checks as text, one a line."""
    width = max(len(check.name) for check in checks)
    return "\n".join(f"{'ok  ' if each.holds else 'FAIL'}  {each.name:<{width}}  {each.numbers}" for each in checks)


def equal(name: str, found: Any, expected: Any, close: float = CLOSE) -> Check:
    """A check that two arrays are equal."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape == expected.shape:
        same = ~np.isfinite(expected) & (found == expected)  # the outputs of masked actions
        same |= is_masked(expected) & is_masked(found)
        found, expected = np.where(same, 0.0, found), np.where(same, 0.0, expected)
    error = float(np.max(np.abs(found - expected), initial=0.0))
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    return Check(name, found.shape == expected.shape and error <= close * scale, f"largest error {error:.1e}")


def _of_rollouts(algorithm: Any) -> Iterator[Check]:
    """The details of rollouts, which all algorithms have."""
    last = LastObservations()
    algorithm.watch(Events([last]))
    policy = algorithm.policy
    used = copy.deepcopy(policy.filter)
    (batch,) = algorithm.collect(STEPS)
    after = yield from of_batch(policy, batch)
    ends = list(_ends(batch))
    said = [last.found[env][order][1] for (_, env), order in ends]
    cut = [(*place, order) for place, order in ends if not batch.terminated[place]]
    same = said == [bool(batch.terminated[place]) for place, _ in ends]
    yield Check("truncated episodes have ended, and are not terminal", same, f"{len(cut)} truncated")
    finals = [last.found[env][order][0] for _, env, order in cut]
    if finals:
        states = [np.stack([each[step, env] for step, env, _ in cut]) for each in after]
        _, expected, _ = policy.forward_states(used(policy.flatten(finals)), states)
        found = [batch.next_values[step, env] for step, env, _ in cut]
        yield equal("truncation is bootstrapped by the value of the last observation", found, expected)


def of_batch(policy: Policy, batch: Batch) -> Generator[Check, None, list[np.ndarray]]:
    """The details of a first rollout.

    Returns:
        The recurrent states behind each step, of shape [T, N, ...]; empty: the model has none.
    """
    steps, size = batch.rewards.shape
    yield Check("a rollout has one row for each step and environment", batch.actions.shape[:2] == (steps, size), "")
    finite = all(np.isfinite(each).all() for each in (batch.observations, batch.rewards, batch.values))
    yield Check("observations, rewards and values are numbers", bool(finite), f"{steps * size} steps")
    parameters, values, before, after = _played_again(policy, batch)
    yield equal("workers act by the learner's weights", batch.parameters, parameters)
    yield equal("values of a rollout are the model's", batch.values, values)
    inside = batch.ended[:-1] == 0
    yield equal(
        "a step's next value is that of the next step", batch.next_values[:-1][inside], batch.values[1:][inside]
    )
    if policy.has_state:
        assert batch.sequences is not None and batch.states is not None
        begins = [np.stack([each[begin, env] for env, begin, _ in batch.sequences]) for each in before]
        for number, (found, expected) in enumerate(zip(batch.states, begins, strict=True)):
            yield equal(f"sequences begin with the states of the rollout: state {number}", found, expected)
        are_whole = all(
            length <= policy.max_seq_len and not batch.ended[begin : begin + length - 1, env].any()
            for env, begin, length in batch.sequences
        )
        yield Check("a sequence is within one episode", are_whole, f"{len(batch.sequences)} sequences")
        rows = np.sort(rows_of(batch.sequences, size))
        yield Check("each step is in one sequence", np.array_equal(rows, np.arange(steps * size)), "")
    return after


def _played_again(policy: Policy, batch: Batch) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Parameters and values, step by step, and the states before and behind each step; an end resets them."""
    size = batch.rewards.shape[1]
    states = [np.stack([each] * size) for each in policy.initial_state]
    steps = []
    for row, ended in zip(batch.observations, batch.ended, strict=True):
        parameters, values, after = policy.forward_states(row, states)
        steps.append((parameters, values, states, after))
        states = [each.copy() for each in after]
        for own, initial in zip(states, policy.initial_state, strict=True):
            own[ended > 0] = initial
    columns = list(zip(*steps, strict=True))
    before, behind = ([np.stack(each) for each in zip(*column, strict=True)] for column in columns[2:])
    return np.stack(columns[0]), np.stack(columns[1]), before, behind


def _ends(batch: Batch) -> Iterator[tuple[tuple[int, int], int]]:
    """(step, environment) of each end, and its order among those of its environment."""
    for env in range(batch.ended.shape[1]):
        for order, step in enumerate(np.flatnonzero(batch.ended[:, env])):
            yield (int(step), env), order


def _of_ppo(algorithm: Any) -> Iterator[Check]:
    """The details of PPO: ppo.py lists their sources."""
    config, policy = algorithm.config, algorithm.policy
    batch = algorithm.collect(STEPS)[0]
    gamma, lambda_ = config["gamma"], config["lambda_"]
    advantages, targets = batch.advantages(gamma, lambda_)
    yield equal("advantages are those of the definition of GAE", advantages, _gae(batch, gamma, lambda_))
    yield equal("targets of the value function are advantages plus values", targets, advantages + batch.values)
    terminal = batch.terminated > 0
    expected = batch.rewards[terminal] - batch.values[terminal]
    yield equal("a terminal state has no value", advantages[terminal], expected)

    data = algorithm._data()
    rows = next(algorithm._minibatches(data))
    with torch.no_grad():
        parameters, _ = policy.evaluate(rows)
        log_std = getattr(policy.model, "log_std", None)
        log_p = policy.distribution.log_probability(parameters, log_std, rows["actions"])
    ratio = torch.exp(log_p - rows["old_log_p"]).cpu().numpy()
    yield equal("the ratio is 1 in the first minibatch", ratio, np.ones_like(ratio), 1e-3)
    if policy.has_state:
        together, alone = _beside_others_and_alone(policy, rows)
        yield equal("padding is masked: a sequence alone has the same values", alone, together)

    loss = _update_of(algorithm, rows)["policy_loss"]
    scaled = {**rows, "advantages": 10.0 * rows["advantages"] + 3.0}
    again = _update_of(algorithm, scaled)["policy_loss"]
    yield equal("advantages are normalised in each minibatch", [again], [loss], 1e-3)
    normal = rows["advantages"].cpu().numpy()
    normal = (normal - normal.mean()) / (normal.std(ddof=1) + 1e-8)
    epsilon = config["clip_param"]
    clipped = np.minimum(ratio * normal, np.clip(ratio, 1 - epsilon, 1 + epsilon) * normal)
    yield equal("the loss is the clipped objective", [loss], [-clipped.mean()], 1e-3)
    if config["grad_clip"]:
        before = [parameter.detach().clone() for parameter in policy.model.parameters()]
        huge = {**rows, "targets": rows["targets"] + 1e6}
        _update_of(algorithm, huge, keeps=True)
        squares = sum(float((each.grad**2).sum()) for each in policy.model.parameters() if each.grad is not None)
        for parameter, value in zip(policy.model.parameters(), before, strict=True):
            parameter.data.copy_(value)
        norm = squares**0.5
        yield Check("the gradient's norm is clipped", norm <= config["grad_clip"] * (1 + CLOSE), f"norm {norm:.3g}")


def _beside_others_and_alone(policy: Policy, rows: dict[str, torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Values of the shortest sequences of a minibatch: padded beside longer ones, and without padding."""
    lengths = rows["lengths"].cpu().numpy()
    begins = np.cumsum(lengths) - lengths
    found = []
    with torch.no_grad():
        whole = policy.evaluate(rows)[1].cpu().numpy()
        for sequence in np.argsort(lengths, kind="stable")[:4]:
            own = slice(begins[sequence], begins[sequence] + lengths[sequence])
            of_sequences = {key for key in rows if key == "lengths" or key.startswith("state_")}
            part = {
                key: value[sequence : sequence + 1] if key in of_sequences else value[own]
                for key, value in rows.items()
            }
            found.append((whole[own], policy.evaluate(part)[1].cpu().numpy()))
    together, alone = (np.concatenate(each) for each in zip(*found, strict=True))
    return together, alone


def _gae(batch: Batch, gamma: float, lambda_: float) -> np.ndarray:
    """Advantages as a sum for each step, without recursion."""
    steps, size = batch.rewards.shape
    deltas = batch.rewards + gamma * batch.next_values * (1 - batch.terminated) - batch.values
    found: np.ndarray = np.zeros((steps, size))
    for env in range(size):
        for first in range(steps):
            weight = 1.0
            for step in range(first, steps):
                found[first, env] += weight * deltas[step, env]
                weight *= gamma * lambda_
                if batch.ended[step, env]:
                    break
    return found


def _update_of(algorithm: Any, rows: dict[str, Any], keeps: bool = False) -> dict[str, float]:
    """The metrics of one update; the model and the optimiser are put back.  keeps: the gradients stay."""
    weights = copy.deepcopy(algorithm.policy.model.state_dict())
    optimizer = copy.deepcopy(algorithm.optimizer.state_dict())
    metrics: dict[str, float] = algorithm._update(rows)
    algorithm.policy.model.load_state_dict(weights)
    algorithm.optimizer.load_state_dict(optimizer)
    if not keeps:
        algorithm.optimizer.zero_grad()
    return metrics


def _of_dqn(algorithm: Any) -> Iterator[Check]:
    """The details of DQN: dqn.py lists their sources."""
    config, policy, memory = algorithm.config, algorithm.policy, algorithm.memory
    model, target = policy.model, algorithm.target
    while memory.size < config["train_batch_size"]:
        algorithm.training_step()
    seen: dict[str, Any] = {}
    draw, update = memory.draw, memory.update
    memory.draw = lambda *given, **options: seen.setdefault("rows", draw(*given, **options))
    memory.update = lambda places, errors: seen.update(errors=errors)
    frozen, before = copy.deepcopy(target), copy.deepcopy(model)
    try:
        algorithm._update()
    finally:
        memory.draw, memory.update = draw, update
    rows = seen["rows"]
    with torch.no_grad():
        of_next = algorithm.policy.tensor(rows["next_observations"])
        next_q = policy.run(frozen, of_next)[0].cpu().numpy()
        choosing = policy.run(before, of_next)[0].cpu().numpy() if config["double_q"] else next_q
        q = policy.run(before, algorithm.policy.tensor(rows["observations"]))[0].cpu().numpy()
    every = np.arange(len(q))
    y = rows["returns"] + rows["discounts"] * next_q[every, choosing.argmax(-1)]
    name = "the learner's action, valued by the target" if config["double_q"] else "the target's largest value"
    yield equal(f"y has {name}", seen["errors"], q[every, rows["actions"]] - y)
    same = all(torch.equal(value, target.state_dict()[key]) for key, value in frozen.state_dict().items())
    yield Check("an update leaves the target network as it is", same, "")
    weights = rows["weights"]
    yield Check(
        "weights are at most 1", bool((weights > 0).all() and weights.max() <= 1 + CLOSE), f"{weights.max():.3f}"
    )
    batch = algorithm.collect(STEPS)[0]
    assert batch.next_observations is not None
    inside = batch.ended[:-1] == 0
    expected = batch.observations[1:][inside]
    yield equal("a step's next observation is that of the next step", batch.next_observations[:-1][inside], expected)
    low, high = sorted((config["epsilon"][0][1], config["epsilon"][-1][1]))
    yield Check("epsilon is in its schedule", low <= policy.epsilon <= high, f"{policy.epsilon:.3f}")


# The checks of each algorithm, by the name of its class.
OF_ALGORITHM: dict[str, Callable[[Any], Iterator[Check]]] = {"DQN": _of_dqn, "PPO": _of_ppo}
