"""Files of a policy alone, without its algorithm."""

from __future__ import annotations

import os
import pickle
from collections.abc import Collection
from typing import Any

from .keywords import check_keywords

__all__ = ["Exports"]

POLICY = "policy_state.pkl"


class Exports:
    """Writes a policy, or its model, into a folder, and reads policies."""

    def export_checkpoint(self: Any, export_dir: str, filename_prefix: Any = None, **former: Any) -> None:
        """Write the policy into a folder, which is made; `Policy.from_checkpoint` reads it.

        Raises:
            NotImplementedError: another form, or another state, is asked for.
        """
        import cloudpickle

        del filename_prefix
        if former.get("checkpoint_format") == "cloudpickle":
            del former["checkpoint_format"]
        check_keywords(
            "export_checkpoint",
            former,
            checkpoint_format="algo.save(folder) writes weights in msgpack.",
            policy_state="Call set_state(state) of the policy first.",
        )
        os.makedirs(export_dir, exist_ok=True)
        with open(os.path.join(export_dir, POLICY), "wb") as file:
            cloudpickle.dump(self, file)

    @staticmethod
    def from_checkpoint(checkpoint: Any, policy_ids: Collection[str] | None = None, **former: Any) -> Any:
        """The policy of a folder of `export_checkpoint`; of an algorithm's checkpoint: its policies, by name.

        Args:
            checkpoint: the folder, or a `Checkpoint`.
            policy_ids: the names that are read; None: all.
        """
        from .algorithm import Algorithm

        check_keywords("Policy.from_checkpoint", former)
        folder = os.fspath(getattr(checkpoint, "path", checkpoint))
        if os.path.exists(os.path.join(folder, POLICY)):
            with open(os.path.join(folder, POLICY), "rb") as file:
                return pickle.load(file)
        algo = Algorithm.from_checkpoint(folder)
        try:
            return {
                name: algo.get_policy(name) for name in algo.policy_ids() if policy_ids is None or name in policy_ids
            }
        finally:
            algo.stop()

    def export_model(self: Any, export_dir: str, onnx: Any = None) -> None:
        """Write the model as `model.pt` into a folder, which is made: `torch.load(path, weights_only=False)`.

        Raises:
            NotImplementedError: the policy is a vector of numbers, as that of ES; or a file of ONNX is asked for.
        """
        instead = "Call torch.onnx.export(policy.model, ...)."
        check_keywords("export_model", {"onnx": onnx}, onnx=instead)
        if not hasattr(self, "model"):
            raise NotImplementedError(
                'This policy has no module of torch.  Take its numbers, get_weights()["theta"], or export_checkpoint.'
            )
        import torch

        os.makedirs(export_dir, exist_ok=True)
        torch.save(self.model, os.path.join(export_dir, "model.pt"))
