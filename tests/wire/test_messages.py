"""The vocabulary: every message travels, has a number of its own for ever, and has a route."""

import re

import pytest
from hypothesis import given, settings

from docs.protocol import PARTIES
from tests.scripts import ROOT
from tests.wire.strategies import of_type
from zray.roles.client import Client
from zray.roles.gcs import GcsShard
from zray.roles.gcs.chain import ChainMember
from zray.roles.gcs.client import ChainClient
from zray.roles.gcs.master import ChainMaster
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.hosting import Hosting, ReplicaKeeper
from zray.roles.local_scheduler import LocalScheduler
from zray.roles.local_scheduler.addresses import Addresses
from zray.roles.monitor import Monitor
from zray.roles.object_manager import ObjectManager
from zray.roles.relay import Relay
from zray.roles.scheduler_count import SchedulerCount
from zray.wire import allowed, codec
from zray.wire.codec import MESSAGE_TYPES, Envelope, decode, encode
from zray.wire.message import RETIRED_TAGS, ROUTES

# Tags are forever: a new message gets a new line here; the line of a removed one moves to RETIRED_TAGS.
TAGS = {
    1: "Hello",
    2: "Welcome",
    3: "HelloRefused",
    4: "Goodbye",
    5: "GoodbyeReply",
    6: "GetStatus",
    7: "StatusReply",
    8: "StopSession",
    9: "Ack",
    10: "PublishFunction",
    11: "SubmitTasks",
    12: "StartTasks",
    13: "TasksFinished",
    14: "TasksReturned",
    15: "ObjectsReady",
    16: "WaitObjects",
    17: "WaitReply",
    18: "CancelWait",
    19: "JobStarted",
    20: "StopWorker",
    21: "ProcessDropped",
    22: "Explain",
    23: "ExplainReply",
    24: "InlineLimit",
    25: "AwaitRoom",
    26: "PutMissing",
    27: "ResultMissing",
    30: "PutObjects",
    31: "HoldObjects",
    32: "ReleaseObjects",
    33: "UnpinObjects",
    34: "AllocateObject",
    35: "ObjectAllocated",
    36: "PagesReserved",
    37: "AllocateRefused",
    38: "AbandonObject",
    40: "SealObjects",
    41: "FreeObjects",
    42: "ProcessGone",
    43: "FetchObject",
    44: "ObjectFetched",
    45: "FetchFailed",
    46: "PullObject",
    47: "ObjectChunk",
    48: "PullRefused",
    49: "ReadInline",
    50: "InlineRead",
    51: "ClaimObject",
    52: "ObjectClaimed",
    53: "ObjectInline",
    54: "PullElsewhere",
    55: "PullDone",
    56: "StopFetching",
    57: "FetchWaits",
    58: "FreeValues",
    59: "ValuesFreed",
    60: "CreateActor",
    61: "RegisterActor",
    62: "ActorRegistered",
    63: "ActorNameTaken",
    64: "ActorRemoved",
    65: "FindActor",
    66: "FindActorReply",
    67: "LookUpActor",
    68: "LookUpActorReply",
    69: "KillActor",
    70: "StartActor",
    71: "ActorStarted",
    72: "ActorStartFailed",
    73: "ActorExited",
    78: "EndTasks",
    79: "StealTasks",
    80: "LoadReport",
    81: "SpillTask",
    82: "SpillRefused",
    83: "PlaceTask",
    84: "TaskAccepted",
    85: "LocateObjects",
    86: "LocateObjectsReply",
    87: "JobEnded",
    88: "TaskPlaced",
    89: "TaskDeferred",
    90: "TaskGivenBack",
    91: "TaskDone",
    92: "JobOutput",
    93: "OutputHeard",
    94: "FlushOutput",
    95: "FindTasks",
    96: "TasksFound",
    97: "JobNotice",
    98: "PublishCode",
    99: "CodeAdded",
    100: "RecordTasks",
    101: "RecordTasksReply",
    102: "AddLocations",
    103: "RemoveLocations",
    104: "HoldAtNode",
    105: "HoldAtNodeReply",
    106: "ReleaseAtNode",
    107: "SubscribeObject",
    108: "ObjectLocated",
    109: "FreeCopies",
    110: "FetchFunction",
    111: "FetchFunctionReply",
    112: "RebuildObject",
    113: "CannotRebuild",
    114: "ObjectLost",
    115: "LineageNeeded",
    116: "LineageNeededReply",
    117: "OutputFlushed",
    118: "ReleaseFunctions",
    119: "OfferCopies",
    120: "RegisterNode",
    121: "Heartbeat",
    122: "NodeJoined",
    123: "NodeLost",
    124: "HeartbeatReply",
    125: "FindUnheld",
    126: "FindUnheldReply",
    127: "FindHolders",
    128: "FindHoldersReply",
    129: "HandleReleased",
    130: "HostHello",
    131: "HostWelcome",
    132: "HostRefused",
    133: "JoinCluster",
    134: "JoinClusterReply",
    135: "JoinRefused",
    136: "MessageRefused",
    137: "GetNodes",
    138: "NodesReply",
    139: "HostGoodbye",
    140: "HostAdded",
    141: "HostRemoved",
    142: "HostExpelled",
    143: "HostAside",
    144: "TraceHandles",
    145: "TraceHandlesReply",
    146: "EndTrace",
    150: "ChainOffer",
    151: "ChainFollow",
    152: "ChainChanged",
    153: "ChainJoined",
    154: "ChainMemberLost",
    155: "ChainWrite",
    156: "ChainResults",
    157: "ChainRead",
    158: "ChainReadReply",
    159: "ChainHave",
    160: "ChainState",
    161: "ChainUpdates",
    162: "ChainAck",
    163: "ChainLineage",
    164: "ChainAgain",
    165: "ChainTaken",
    166: "ChainSafe",
    167: "ChainStalled",
    170: "SpillActor",
    171: "PlaceActor",
    172: "ActorAccepted",
    173: "ActorHandedOver",
    174: "ActorDeferred",
    175: "ActorAt",
    176: "ActorForgotten",
    177: "LocateActor",
    178: "ActorLocated",
    179: "ForwardCalls",
    180: "CallsAccepted",
    181: "CallsFinished",
    182: "ResultsHeld",
    183: "ActorClaimed",
    184: "ActorRefused",
    185: "GuardActor",
    186: "ActorGuarded",
    187: "ActorRestarted",
    188: "UnguardActor",
    189: "ActorUnguarded",
    190: "GetKeys",
    191: "KeysReply",
    192: "RevokeKey",
    193: "DrawToken",
    194: "TokenReply",
    195: "OrderReply",
    196: "ActorKilled",
    197: "ActorSaved",
    198: "GuardianLeaves",
    200: "OpenTunnel",
    201: "TunnelBytes",
    202: "TunnelCredit",
    203: "TunnelClosed",
    204: "LogStart",
    205: "LogCalls",
    206: "LogCheckpoint",
    207: "CallsLogged",
    208: "AnswersTaken",
    210: "DrainNode",
    211: "DrainReport",
    212: "TakeCopies",
    213: "CopiesTaken",
    214: "OrderDrain",
    215: "DrainReply",
    240: "CreateGroup",
    241: "CreateGroupReply",
    242: "RemoveGroup",
    243: "FindGroups",
    244: "GroupsFound",
    245: "AttendShard",
    246: "RegisterGroup",
    247: "GroupRegistered",
    248: "KeepGroup",
    249: "FindPlaces",
    250: "PlacesFound",
    251: "TryPlaces",
    252: "GiveUpGroup",
    253: "PrepareBundles",
    254: "BundlesPrepared",
    255: "CommitBundles",
    256: "ReturnBundles",
    257: "LocateGroup",
    258: "GroupLocated",
    259: "LookUpGroups",
    260: "GroupsListed",
    261: "MayHost",
    262: "StartReplica",
    263: "ReplicaRuns",
    264: "ReplicaRefused",
    265: "StopReplica",
    266: "ReplicaEnded",
    267: "ReplicaStuck",
    268: "GiveUpNode",
    269: "BundlesLeave",
    270: "ActorOrphaned",
    271: "FindActorNames",
    272: "ActorNamesFound",
    273: "LookUpActorNames",
    274: "ActorNamesListed",
    275: "HoldCalls",
    276: "CancelTask",
    277: "InterruptTask",
    278: "CancelTaskReply",
    279: "ItemsYielded",
    280: "ItemsMade",
    281: "LeaveGenerator",
    282: "ItemsDrawn",
    283: "ReturnPlaces",
    290: "ListWork",
    291: "WorkListed",
    295: "TaskOverdue",
    296: "ListEvents",
    297: "EventsListed",
    298: "CallClosed",
    299: "EndActor",
    300: "ActorEnded",
    301: "SeekCaller",
    305: "TaskCleansUp",
    306: "SeekNamed",
    307: "NamedFound",
    310: "WatchLoad",
    311: "SchedulerLoad",
    312: "SlotsChanged",
    313: "SlotsMoved",
    314: "AwaitReturns",
    315: "AwaitReturnsReply",
    316: "LineageMoved",
}

ROLES = (
    ChainClient,
    ChainMaster,
    Client,
    Monitor,
    Relay,
    Hosting,
    ReplicaKeeper,
    SchedulerCount,
)
# Roles with components, whose handlers are known when they are there.
BUILT_ROLES = (
    ChainMember("gcs-0", "gcs", "chains", is_durable=True),
    GcsShard("gcs-0"),
    GlobalScheduler("global", ["gcs-0"]),
    LocalScheduler("local", Addresses("objects", ["global"], ["gcs-0"], "monitor"), total={"CPU": 1}),
    ObjectManager("objects", "local", capacity=4096),
)
ROUTE = re.compile(r"(?:^|; )[a-z]+(, [a-z]+)*( -> [a-z]+(, [a-z]+)*)+")


@pytest.mark.parametrize("message_type", MESSAGE_TYPES.values(), ids=lambda message_type: message_type.__name__)
def test_what_is_sent_is_what_arrives(message_type):
    @settings(max_examples=30, deadline=None)
    @given(of_type(message_type))
    def travels(message):
        arrived = decode(encode(Envelope(1, 2, 3, [message])))
        assert arrived == Envelope(1, 2, 3, [message])
        assert type(arrived.messages[0]) is message_type

    travels()


def test_tags_are_what_they_have_always_been():
    assert {tag: message_type.__name__ for tag, message_type in MESSAGE_TYPES.items()} == TAGS
    assert not set(TAGS) & set(RETIRED_TAGS)


@pytest.mark.parametrize("message_type", MESSAGE_TYPES.values(), ids=lambda message_type: message_type.__name__)
def test_route_of_a_message_has_the_form_of_a_route_between_known_parties(message_type):
    route = ROUTES[message_type.__struct_config__.tag]
    assert not ROUTE.sub("", route), route
    assert set(re.findall(r"\w+", route)) <= PARTIES.keys()


def test_routes_belong_to_messages_and_use_each_party():
    assert ROUTES.keys() == MESSAGE_TYPES.keys()
    assert {name for route in ROUTES.values() for name in re.findall(r"\w+", route)} == PARTIES.keys()


def test_pairs_of_a_route_are_those_of_its_steps():
    assert list(allowed.pairs("a, b -> c -> d; e -> f, g")) == [
        ("a", "c"),
        ("b", "c"),
        ("c", "d"),
        ("e", "f"),
        ("e", "g"),
    ]


def test_permissions_are_the_routes_between_hosts_and_from_processes():
    granted = {(sender, kind, receiver) for (sender, receiver), kinds in allowed.ALLOWED.items() for kind in kinds}
    routed = {
        (*pair, kind) for kind in MESSAGE_TYPES.values() for pair in allowed.pairs(ROUTES[kind.__struct_config__.tag])
    }
    assert granted == {
        (sender, kind, receiver)
        for sender, receiver, kind in routed
        if sender in allowed.SENDERS and receiver in allowed.ROLES and (sender, receiver) not in allowed.WITHIN_A_HOST
    }
    # Handshakes stand outside of letters, and no role or process may send them in one.
    handshakes = {"Hello", "Welcome", "HostHello", "HostWelcome", "HostAside", "JoinCluster", "JoinClusterReply"}
    assert not handshakes & {kind.__name__ for _, kind, _ in granted}


def test_message_without_a_route_is_refused(monkeypatch):
    monkeypatch.delitem(ROUTES, 1)
    with pytest.raises(TypeError, match=r"Hello needs a tag of its own with a route \(message.routed\), not 1"):
        codec._message_types()


@pytest.mark.parametrize("message_type", MESSAGE_TYPES.values(), ids=lambda message_type: message_type.__name__)
def test_docstring_of_a_message_says_what_its_route_does_not(message_type):
    assert message_type.__doc__ and " -> " not in message_type.__doc__.partition("\n")[0]


def test_a_message_is_an_array_with_its_tag_in_front():
    """So that other languages can speak it, and a dump can be read."""
    import msgspec

    from zray.wire.session import HelloRefused

    frame = encode(Envelope(1, 2, 3, [HelloRefused("no")]))
    assert msgspec.msgpack.decode(frame) == [1, 2, 3, [[3, "no"]]]


# Said to a process as such, not to a role in it: the reactor, the worker's loop and the driver handle them.
HOST_MESSAGES = {
    "Ack",
    "DrainReply",
    "DrawToken",
    "EndActor",
    "GetKeys",
    "GetStatus",
    "Goodbye",
    "GoodbyeReply",
    "Hello",
    "HelloRefused",
    "HostAdded",
    "HostAside",
    "HostExpelled",
    "HostGoodbye",
    "HostHello",
    "InterruptTask",
    "HostRefused",
    "HostRemoved",
    "HostWelcome",
    "JobStarted",
    "JoinCluster",
    "JoinClusterReply",
    "JoinRefused",
    "KeysReply",
    "MessageRefused",
    "OrderDrain",
    "OrderReply",
    "ProcessDropped",
    "RevokeKey",
    "StartActor",
    "StartTasks",
    "StopSession",
    "StopWorker",
    "TokenReply",
    "Welcome",
}


def test_every_message_is_handled_by_somebody():
    handled = set().union(*(role.HANDLERS for role in ROLES), *(role.handlers for role in BUILT_ROLES))
    assert {kind.__name__ for kind in MESSAGE_TYPES.values() if kind not in handled} == HOST_MESSAGES
    hosts = "".join(path.read_text() for path in (ROOT / "zray" / "host").rglob("*.py"))
    assert not [name for name in HOST_MESSAGES if not re.search(rf"\b{name}\b", hosts)]


def test_annotation_of_a_message_is_no_text_that_each_process_would_evaluate():
    """Texts (`from __future__ import annotations`) cost each start of a process 35 ms."""
    texts = [
        f"{kind.__module__}.{kind.__name__}.{name}"
        for kind in MESSAGE_TYPES.values()
        for name, annotation in kind.__annotations__.items()
        if isinstance(annotation, str)
    ]
    assert not texts
