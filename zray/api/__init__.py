"""The public API: the functions and classes behind `remote`, `get`, `put`, `wait`, actors, contexts and graphs.

A module imports those below it only (setup.cfg):

    cluster_utils                                nodes of a cluster on one machine, for tests
    decorator                                    `remote`
    actor_class                                  `remote` on a class
    actors, runtime_context                      actors by name; facts on the caller
    actor_handle, pending_calls                  handles, and calls of their methods
    remote_function                              `remote` on a function
    cluster_info, freeing, objects               nodes and resources; values
    sessions                                     `init` and `shutdown`
    introspection                                signatures that help() and editors show
    dag, job_config, remote_types, signatures    graphs, types and helpers without a session

Programs find these as names of `zray`, and in modules with Ray's names (zray/actor.py and others).
"""
