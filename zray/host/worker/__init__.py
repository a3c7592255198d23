"""A worker process: it claims tasks, runs them, and says what came of them.

    main, startup, code_changes    the process, its first and last steps, a program that changes
    actor_runner, actor_methods, actor_shutdown, checkpoints    actors
    async_runner, async_tasks, background_waits    event loops and threads
    outcomes, failures, exit, exit_errors    values, errors, ends
    environment_variables, run_queue_delay    around each run

Layer: above `client`.
"""
