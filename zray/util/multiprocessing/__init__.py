"""multiprocessing.Pool over the processes of a zray session, on all nodes of the cluster.

`from zray.util.multiprocessing import Pool` takes the place of `from multiprocessing import Pool`.
"""

from multiprocessing import TimeoutError

from .joinable_queue import JoinableQueue
from .pool import Pool

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]
