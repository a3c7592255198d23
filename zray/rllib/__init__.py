"""RLlib: reinforcement learning on torch and gymnasium, in Ray's spellings."""

from typing import Any

from . import doors, extras

__all__ = ["Algorithm", "AlgorithmConfig", "BaseEnv", "EnvContext", "MultiAgentEnv", "Policy", "SampleBatch"]

# Names of the package, and where they are: module:attribute.
_PLACES = {
    "Algorithm": "algorithm:Algorithm",
    "AlgorithmConfig": "config:AlgorithmConfig",
    "BaseEnv": "callbacks:BaseEnv",
    "EnvContext": "environments:EnvContext",
    "MultiAgentEnv": "env.multi_agent_env:MultiAgentEnv",
    "Policy": "policies:Policy",
    "RolloutWorker": "groups:Group",
    "SampleBatch": "policy.sample_batch:SampleBatch",
}

doors.install()
extras.install()


def __getattr__(name: str) -> Any:
    from ..ray_names import absent

    if name in _PLACES:
        return doors.value_at(_PLACES[name], __name__)
    if (name in doors.MODULES and "." not in name) or name in ("algorithms", "rollout", "train"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise absent.attribute_error(__name__, name)
