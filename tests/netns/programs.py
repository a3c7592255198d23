"""Parts of programs that run on a host."""

# What every program begins with: its arguments, and where a task runs.
HEADER = """
import sys, threading
import zray
zray.init(address=sys.argv[1])

def here():
    context = zray.get_runtime_context()
    return context.get_node_id()

def on(host, function, **options):
    return zray.remote(function).options(resources={host: 1}, **options)

def say(word):
    print(word, flush=True)
"""
# An actor on host c.
COUNTER = """
@zray.remote(resources={"c": 1}, num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0
    def add(self):
        self.count += 1
        return self.count
counter = Counter.remote()
"""
