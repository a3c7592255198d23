"""Progress bars of tasks and actors, under the name by which Ray's programs find them.  See zray.util.tqdm."""

from ..util.bars import BarManager, instance, safe_print, tqdm, trange

__all__ = ["BarManager", "instance", "safe_print", "tqdm", "trange"]
