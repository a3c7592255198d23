"""The global control store (Ray paper 4.3).

A shard alone is `shard.GcsShard`; a node that hosts one needs no more.  Replicated: `chain.ChainMember` (around a
shard), `client.ChainClient` (on every host that uses the shard) and `master.ChainMaster`.
"""

from .shard import GcsShard

__all__ = ["GcsShard"]
