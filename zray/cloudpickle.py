"""cloudpickle, under the name by which programs written for Ray find it."""

from cloudpickle import CloudPickler, Pickler, dump, dumps, load, loads

__all__ = ["CloudPickler", "Pickler", "dump", "dumps", "load", "loads"]
