"""Simulated worlds whose processes begin with other tables of slots."""

from zray.sim import simulator


def call_after(monkeypatch, kind, name, after):
    """Have each call of a method followed by `after(self, *arguments)`."""
    before = getattr(kind, name)

    def wrapped(self, *args, **kwargs):
        result = before(self, *args, **kwargs)
        after(self, *args)
        return result

    monkeypatch.setattr(kind, name, wrapped)


def begin_nodes_with(monkeypatch, table_of):
    """Have each node begin with the table that `table_of` gives for its addresses."""
    plain = simulator.Addresses

    def addresses(*args, **kwargs):
        made = plain(*args, **kwargs)
        made.slots = table_of(made)
        return made

    monkeypatch.setattr(simulator, "Addresses", addresses)
