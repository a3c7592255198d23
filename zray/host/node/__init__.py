"""The node process: its roles, and the code that performs their effects.

    main, startup, node    first steps, life, roles and effects
    session_server    drivers and workers that join and leave, and the end of the session
    worker_processes, environment_servers    workers and fork servers
    health_check, node_resources    folder and memory; resources that every node has

Layer: the highest, beside `driver`.
"""
