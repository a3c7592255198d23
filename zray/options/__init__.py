"""Options that users give to tasks, actors, sessions and environments: each is checked when it is given.

    remote_options      options of remote functions, actors and their methods
    runtime_env         environments of tasks
    package_requests    packages of an environment, as text
    checks              arguments of functions

The host and the simulator use these checks too.
"""
