"""Object managers on a desk: their effects are performed by hand, one message at a time; and several of them."""

from tests.roles.timers import Timers
from zray.roles import effects as e
from zray.roles.object_manager import ObjectManager
from zray.wire.gcs import NodeLost
from zray.wire.message import Bulk
from zray.wire.objects import (
    AllocateObject,
    FetchFailed,
    FetchObject,
    FreeObjects,
    InlineRead,
    ObjectFetched,
    ReadInline,
    SealObjects,
)

CAPACITY = 1 << 20
CHUNK = 16 << 10


class Desk:
    """One object manager whose effects are performed by hand."""

    def __init__(self, capacity=CAPACITY, name="n1", **options):
        self.name = name
        self.manager = ObjectManager(
            f"{name}/objects", f"{name}/local", capacity=capacity, reserve_bytes=64 << 10, chunk_bytes=CHUNK, **options
        )
        self.outcomes = []  # of slow effects, not yet told
        self.timers = Timers()
        self.memory = bytearray(capacity)
        self.now = 0.0

    def tell(self, sender, message):
        """One turn.  Returns what was sent."""
        sent = []
        effects = self.manager.handle(sender, message, self.now) + self.manager.end_turn(self.now)
        self.timers.note(effects)
        while effects:
            effect = effects.pop(0)
            if type(effect) is e.Send:
                sent.append((effect.destination, effect.message))
            elif type(effect) is e.CreateSegment:
                self.outcomes.append(e.SegmentCreated(effect.segment))
            elif type(effect) is e.ReservePages:
                self.outcomes.append(e.PagesAreThere(effect.token))
            elif type(effect) is e.ReadRange:
                view = memoryview(self.memory).toreadonly()[effect.offset : effect.offset + effect.size]
                effects += self.manager.handle("host", e.RangeRead(effect.token, Bulk(view)), self.now)
            elif type(effect) is e.WriteRange:
                self.outcomes.append(Write(effect))
        self.manager.check_everything()
        return sent

    def timer(self, name, *, stays=False):
        """Fire a timer that is set, as in Timers.  Returns what was sent."""
        return self.tell("timer", self.timers.take(name, stays=stays))

    def tell_outcome(self, number=0):
        """Of a slow effect; it is performed only now."""
        outcome = self.outcomes.pop(number)
        if type(outcome) is Write:
            effect = outcome.effect
            self.memory[effect.offset : effect.offset + len(effect.data)] = effect.data.data
            outcome = e.RangeWritten(effect.token)
        return self.tell("host", outcome)

    def tell_all_outcomes(self):
        """Of slow effects, and of those that follow."""
        sent = []
        while self.outcomes:
            sent += self.tell_outcome()
        return sent

    def allocate(self, object_id, size, process="w1"):
        """To the end."""
        return self.tell(process, AllocateObject(object_id, size)) + self.tell_all_outcomes()

    def store(self, object_id, data):
        """A sealed object.  Returns what was sent."""
        sent = self.allocate(object_id, len(data))
        place = self.manager.objects[object_id].place
        self.memory[place.offset : place.offset + len(data)] = data
        return sent + self.tell(f"{self.name}/local", SealObjects([object_id]))

    def bytes_of(self, object_id):
        place = self.manager.objects[object_id].place
        return bytes(self.memory[place.offset : place.offset + place.size])


class Write:
    """A WriteRange that the host has not got round to."""

    def __init__(self, effect):
        self.effect = effect


class Fleet:
    """Several nodes: desks, each with a local scheduler that does what it must, and the mail between them.

    Mail from one to another arrives in order; whose is next is for the test to say (`step`).
    """

    def __init__(self, names, **options):
        self.desks = {name: Desk(name=name, **options) for name in names}
        self.mail = {}  # (source, target) -> messages
        self.inline = {}  # object -> small value, the same everywhere
        self.fetched = {}  # node -> what its local scheduler was told
        self.carried = []  # (source, target, message) that has arrived
        self.lost = set()

    def fetch(self, name, object_id, size, holders, *, is_small=False):
        """As the local scheduler orders it."""
        order = FetchObject(object_id, size, [f"{holder}/local" for holder in holders], is_small)
        self.tell(name, f"{name}/local", order)

    def tell(self, name, sender, message):
        self.post(name, self.desks[name].tell(sender, message))

    def post(self, name, sent):
        """What a manager has said: its local scheduler answers at once."""
        for target, message in sent:
            if target.partition("/")[0] in self.desks and target != f"{name}/local":
                self.mail.setdefault((name, target.partition("/")[0]), []).append(message)
            elif type(message) is ReadInline:
                value = self.inline.get(message.object_id)
                self.tell(name, target, InlineRead(message.object_id, message.puller, value, self.contained(message)))
            elif type(message) in (ObjectFetched, FetchFailed):
                self.fetched.setdefault(name, []).append(message)
                if type(message) is ObjectFetched and type(message.value) is not bytes:
                    self.tell(name, target, SealObjects([message.object_id]))

    def contained(self, message):
        return ()

    def moves(self):
        """What may happen next."""
        mail = [("mail", pair) for pair in self.mail if self.mail[pair] and not self.lost.intersection(pair)]
        slow = [("slow", name) for name, desk in self.desks.items() if desk.outcomes and name not in self.lost]
        return mail + slow

    def step(self, move):
        """One of those."""
        kind, where = move
        if kind == "slow":
            self.post(where, self.desks[where].tell_outcome())
            return
        source, target = where
        message = self.mail[where].pop(0)
        if getattr(message, "data", None) is not None:
            message.data = Bulk(bytes(message.data.data))  # the bytes leave only now
        self.carried.append((source, target, message))
        self.tell(target, f"{source}/objects", message)

    def run(self, choose=lambda moves: moves[0], until=lambda: False):
        """To the end, or until that is so."""
        while not until() and (moves := self.moves()):
            self.step(choose(moves))

    def lose(self, gone):
        """The verdict reaches all at once."""
        self.lost.add(gone)
        for name in self.desks:
            if name not in self.lost:
                self.tell(name, f"{name}/local", NodeLost(f"{gone}/local", "killed"))

    def free(self, name, object_id):
        self.tell(name, f"{name}/local", FreeObjects([object_id]))

    def carried_from(self, source, kind):
        return [message for origin, _, message in self.carried if origin == source and type(message) is kind]
