"""The rows of a table of transitions that a test takes."""


def record_rows(monkeypatch, machine, method):
    """Return a set of (state, event), which grows with each event of the machine's objects.

    method: the name of the method of the class `machine` that takes an event.
    """
    taken, take = set(), getattr(machine, method)

    def record(self, event, *rest):
        taken.add((self.state, event))
        take(self, event, *rest)

    monkeypatch.setattr(machine, method, record)
    return taken
