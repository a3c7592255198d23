"""Timers that a role has set: a test has them fire, by the names of their actions ("Lineage.send_portion")."""

from zray.roles.effects import SetTimer
from zray.sim.trace import name_of


class Timers(list):
    """Messages of the timers that are set, in the order in which they were."""

    def note(self, effects):
        """Keep the timers among these effects."""
        self += [effect.message for effect in effects if type(effect) is SetTimer]

    def named(self, name):
        """Messages with this action."""
        return [later for later in self if name_of(later) == name]

    def take(self, name, *, stays=False):
        """Message of the oldest one with this action.  stays: it is still set; one like it fires."""
        found = self.named(name)
        assert found, f"no timer {name} is set, only {', '.join(map(name_of, self)) or 'none'}"
        if not stays:
            self.remove(found[0])
        return found[0]
