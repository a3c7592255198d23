"""Code and files of a program on their way to workers, and environments with packages.

    module_discovery, module_versions, reloads, pinned_imports    a program's own modules, and their versions
    upload, download, cache    the driver's side, the worker's side, unpacked bundles of a node
    archives, environment_files    what a runtime_env names
    environments    a runtime_env as it travels
    environment_main, environment_cache    the process that installs packages, and what it keeps

Layer: above `process`.
"""
