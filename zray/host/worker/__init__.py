"""A worker process: claims tasks, runs them, and reports the outcomes.

    main, startup, code_changes    the process, its first and last steps, a program that changes
    actor_runner, actor_methods, actor_shutdown, checkpoints    actors
    async_runner, async_tasks, background_waits    event loops and threads
    outcomes, failures, exit, exit_errors    values, errors, ends
    environment_variables, run_queue_delay    around each run

Layer: above `client`.
"""
