"""Dashboard: a page that shows nodes, tasks, actors, objects, logs and experiments of a running session.

`zray dashboard` and `zray.init(include_dashboard=True)` start its server, a process of its own that reads through the
public API.  The extra `zray[dashboard]` brings what the server needs.
"""

from ..on_import import shadows

__all__: list[str] = []

shadows.name_absent(__name__)
