"""Local mode: the runtime of a program without processes; everything runs inline.

    start, runtime    `init(local_mode=True)`, what the API talks to
    node, objects    resources and groups; values, references, futures
    calls, helper_threads    runs of tasks and calls, inline or beside
    actor, actors, event_loop, actor_shutdown    actors

Layer: above `worker`, whose rules for outcomes it shares.
"""
