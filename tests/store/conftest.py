"""All modules of the store are imported before the first test.

Hypothesis draws constants from the source of modules in this folder.  A module that is imported in the middle of a test
changes the pool of constants, and hypothesis takes the strategy for a flaky one.
"""

import importlib
import pkgutil

import zray.store

for module in pkgutil.iter_modules(zray.store.__path__, "zray.store."):
    importlib.import_module(module.name)
