"""A seed -> a whole configuration (swarm testing: each seed has a mix of sizes, delays and faults)."""

from __future__ import annotations

from random import Random

from msgspec import Struct

# name -> (smallest, largest delay in seconds, probability of a tenfold delay)
DELAYS = {
    "even": (20e-6, 20e-6, 0.0),
    "local": (10e-6, 200e-6, 0.0),
    "loaded": (20e-6, 2e-3, 0.02),
    "far": (1e-3, 40e-3, 0.05),
}


# In a sweep over many seeds, every third seed has its invariants checked after each turn, and the others after every
# fourth: the checks of each turn are a third of a run.
CHECKED_EACH_TURN = 3
SPARSE_CHECKS = 4


def turns_between_checks(seed: int) -> int:
    """Return the number of turns of a node between checks of its invariants, in a sweep over many seeds."""
    return SPARSE_CHECKS if seed % CHECKED_EACH_TURN else 1


class Options(Struct, kw_only=True):
    """The options of a run.  Probabilities are per delivery; counts of kills and breaks are limits per run."""

    seed: int
    nodes: int = 1
    cpus: int = 2
    drivers: int = 1
    programs: tuple[str, ...] = ("tree",)
    delay: str = "local"
    turn_delay_max: float = 50e-6
    bandwidth: float = 0.0  # bytes/s of each node's line to all others together; 0: any number
    slow_line: float = 1.0  # slow-down of the line of the last node, or of the guest
    inline_bytes_max: int = 200
    capacity: int = 1 << 22
    pages_max: int = 1 << 20
    chunk_bytes: int = 16 << 10
    reserve_bytes: int = 64 << 10
    spill_above: float | None = None  # the filled part of a store from which on values are spilled
    spill_bytes_max: int = 1 << 40  # of a node's disk
    spill_damage_probability: float = 0.0  # of a restore
    gives_max: int = 2  # nodes that pull an object from a node at a time
    flush_every: int = 16  # results that a worker keeps before sending, at most
    check_every: int = 1  # turns of a node between checks of its invariants
    policy: str = "bottom_up"
    global_schedulers: int = 1
    infeasible: str = "raise"  # reaction to infeasible work
    prints: bool = False  # workers print, and drivers are to see the lines
    cancels_unreferenced: bool = False  # tasks whose refs are gone
    curious: bool = False  # waiting processes ask why, now and then
    late_node_seconds: float = 0.0  # time at which another node joins, with a resource of its own; 0: none
    # Faults.
    kills: int = 0  # of workers
    kill_probability: float = 0.0
    kills_driver: bool = False
    kills_fork_server: bool = False
    # At any delivery, as workers are.
    driver_kills: int = 0
    driver_kill_probability: float = 0.0
    fork_server_kills: int = 0
    fork_server_kill_probability: float = 0.0
    breaks: int = 0
    start_failure_probability: float = 0.0
    slow_worker_probability: float = 0.0
    # Of whole nodes, never the first, which has the shards and the drivers.
    node_kills: int = 0
    node_kill_probability: float = 0.0
    node_freezes: int = 0  # stopped for a while, up to longer than the verdict takes
    node_partitions: int = 0  # cut off from all others for a while
    # Of the head, which is restarted on its state; the drivers are on the second node then.
    head_kills: int = 0
    head_kill_probability: float = 0.0
    head_cpus: int = 0
    # A program outside the cluster: the drivers are on a separate node, without CPUs.
    has_guest: bool = False
    driver_wait: float = 60.0  # how long the guest may be cut off, or asleep
    guest_cuts: int = 0  # number of cuts of the guest
    guest_is_lost: bool = False  # the last time for too long
    head_cuts: int = 0  # from all others
    pair_cuts: int = 0  # between two nodes, neither the head, which reach all others
    node_flaps: int = 0  # nodes with flapping lines
    one_way_pairs: int = 0  # of two nodes, neither the head, only one reaches the other
    one_way_nodes: int = 0  # nodes with one-way lines, in or out
    node_drains: int = 0  # nodes told to leave in order
    fault_seconds: float = 2.0  # faults stop then
    # Weather.
    clogs: int = 0  # swizzles: some lines are clogged one by one, and freed in another order
    repeat_probability: float = 0.0  # of a frame to come twice
    slow_nodes: int = 0
    clocks_differ: bool = False
    clock_jumps: int = 0  # nodes whose clock jumps
    fills: int = 0  # nodes whose memory another program takes for a while
    memory_shortages: int = 0  # times at which a node ends a worker for its memory
    disk_fills: int = 0  # disks that are full for a while
    stall_probability: float = 0.0  # of a disk, for up to two seconds
    # Replicated shards; 0 replicas: a shard is a role of the first node.
    shards: int = 1
    replicas: int = 0
    spares: int = 0
    broken_disks: int = 0  # of replicas in separate processes: an fsync fails
    broken_disk_probability: float = 0.0  # of an order to a disk
    member_kills: int = 0
    member_kill_probability: float = 0.0
    false_verdict_probability: float = 0.0  # of a kill to be only a wrong declaration of death
    # Global schedulers with processes beside the head; 0, and no limits: they are roles of it.
    scheduler_kills: int = 0
    schedulers_max: int = 0  # their number changes, from `global_schedulers` to this; 0: it is fixed
    scheduler_kill_probability: float = 0.0
    gpus: int = 0  # of each node with CPUs
    is_tight: bool = False  # caps are lowered (caps.py)
    lineage_bytes: int = 0  # limit for specs in a replica's memory; 0: unlimited

    @property
    def is_small(self) -> bool:
        """Whether a store may be too full for a put, which then waits FULL_SECONDS and is refused."""
        if self.spill_above is not None:
            return self.spill_bytes_max < 1 << 40 or self.spill_damage_probability > 0
        return self.capacity < 1 << 22 or self.pages_max < 1 << 20 or self.fills > 0

    @property
    def loses_work(self) -> bool:
        """Whether a task may end with a system error, or an actor die, through no fault of the program's."""
        loses_workers = self.kills or self.kills_fork_server or self.fork_server_kills or self.memory_shortages
        return bool(loses_workers or self.start_failure_probability or self.loses_nodes or self.is_small)

    @property
    def loses_nodes(self) -> bool:
        """Whether a node may be declared lost, with work of others."""
        is_head_lost = self.head_kills and self.head_cpus
        return bool(is_head_lost or self.guest_is_lost or self.node_kills or self.node_freezes or self.node_partitions)


class Wanted(Struct, kw_only=True, frozen=True):
    """Requests for runs beyond their seeds: the arguments of scripts/simulate."""

    nodes: int = 0  # 0: the seed chooses
    shards: int = 1
    replicas: int = 0  # of each shard, on separate hosts; 0: none
    deaths: bool = False  # nodes die, freeze and are cut off
    curious: bool = False  # waiting processes ask why
    heads: bool = False  # the head is killed and started again
    drains: bool = False  # nodes leave in order
    groups: bool = False  # all have placement groups, also where nodes leave and die
    crashes: bool = False  # drivers and fork servers die
    cuts: bool = False  # programs are outside of the cluster, and cut off or asleep
    disks: bool = False  # fsyncs of replicas fail, or take up to two seconds
    alone: bool = False  # the head is cut off from all others
    oneway: bool = False  # nodes with one-way lines
    schedulers: bool = False  # global schedulers have separate processes, which die
    counts: bool = False  # their number changes
    tight: bool = False  # queues and tables may hold little
    weather: bool = False  # lines clog, frames come twice, nodes are slow, clocks differ, memory is full
    gpus: bool = False  # nodes have some, and programs use them

    def flags(self) -> str:
        """Return the arguments of scripts/simulate, each with a space before."""
        given = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return "".join(f" --{name}" + (f" {value}" if value is not True else "") for name, value in given if value)


NOTHING_MORE = Wanted()


def options_of(seed: int, wanted: Wanted = NOTHING_MORE) -> Options:
    """The configuration of a seed."""
    options = _options_of(seed, wanted.nodes)
    options.curious = wanted.curious
    if options.nodes > 1:
        random = Random(f"zray placement options {seed}")
        options.policy = random.choice((*["bottom_up"] * 5, "central", "random", "no_locality"))
        options.global_schedulers = random.choice((1, 1, 1, 2, 3))
    options.prints = options.nodes > 1 and Random(f"zray output {seed}").random() < 0.15
    if wanted.deaths:
        _add_deaths(options)
    if wanted.heads:
        _add_head_kills(options, wanted.replicas)
    if wanted.drains:
        _add_drains(options)
    options.shards, options.replicas = wanted.shards, wanted.replicas
    if wanted.replicas:
        random = Random(f"zray chain options {seed}")
        options.spares = random.choice((0, 0, 1, 2))
        options.member_kills = random.choice((0, 1, 2, 5, 20)) if wanted.replicas > 1 else 0
        options.member_kill_probability = random.choice((0.002, 0.01, 0.05))
        options.false_verdict_probability = random.choice((0.0, 0.0, 0.5))
        options.breaks += random.choice((0, 0, 4))
    options.lineage_bytes = Random(f"zray lineage {seed}").choice((0, 1, 2_000, 10_000))
    if wanted.weather:
        _add_weather(options)
    _add_groups(options, are_wanted=wanted.groups)
    _add_recovery(options)
    _add_backlog(options)
    _add_groves(options)
    if wanted.crashes:
        _add_crashes(options)
    if wanted.cuts:
        _add_cuts(options)
    if wanted.disks:
        _add_broken_disks(options)
    if wanted.alone:
        assert options.nodes > 2 and not options.has_guest, (
            "a head is alone where there are several nodes, and no others"
        )
        options.head_cuts = Random(f"zray alone {seed}").choice((1, 1, 2))
    if wanted.oneway:
        _add_one_way(options)
    if wanted.schedulers:
        _add_scheduler_kills(options)
    if wanted.counts:
        _add_counts(options)
    if wanted.gpus:
        options.gpus = Random(f"zray gpus {seed}").choice((2, 2, 3, 4))
        options.programs = (*options.programs, "gpus")
    options.is_tight = wanted.tight
    if options.kills_driver or options.driver_kills or options.guest_is_lost:
        # Detached actors of such a driver live on, and so do their arguments: something is left.
        options.programs = tuple(name for name in options.programs if name != "survivors") or ("tree",)
    return options


def _add_scheduler_kills(options: Options) -> None:
    assert options.nodes > 1 and not options.head_kills, "global schedulers die beside a head that does not"
    random = Random(f"zray schedulers {options.seed}")
    options.global_schedulers = random.choice((2, 2, 3))
    options.scheduler_kills = random.choice((1, 2, 5))
    options.scheduler_kill_probability = random.choice((0.002, 0.01, 0.05))


def _add_counts(options: Options) -> None:
    assert options.nodes > 1 and not options.head_kills, "global schedulers come and go beside a head that lives"
    random = Random(f"zray counts {options.seed}")
    options.global_schedulers = random.choice((1, 1, 2))
    options.schedulers_max = options.global_schedulers + random.choice((1, 2, 3))


def _add_broken_disks(options: Options) -> None:
    assert options.replicas, "disks are those of replicas"
    random = Random(f"zray disks {options.seed}")
    options.broken_disks = random.choice((1, 2, 5))
    options.broken_disk_probability = random.choice((0.01, 0.05, 0.3))
    options.stall_probability = options.stall_probability or random.choice((0.0, 0.02, 0.2))


def _add_one_way(options: Options) -> None:
    assert options.nodes > 1, "a line needs two ends"
    random = Random(f"zray one way {options.seed}")
    options.one_way_pairs = random.choice((0, 1, 1, 3))
    options.one_way_nodes = random.choice((1, 1, 2)) if not options.one_way_pairs else random.choice((0, 1, 2))


def _add_cuts(options: Options) -> None:
    assert options.nodes > 1, "a program outside of a cluster needs one"
    random = Random(f"zray cuts {options.seed}")
    options.has_guest = True
    options.driver_wait = random.choice((6.0, 6.0, 10.0, 60.0))
    options.guest_cuts = random.choice((0, 1, 1, 2, 3))
    options.guest_is_lost = options.guest_cuts > 0 and random.random() < 0.15
    options.pair_cuts = random.choice((0, 0, 1, 3))
    options.node_flaps = random.choice((0, 0, 1, 2))


def _add_weather(options: Options) -> None:
    random = Random(f"zray weather {options.seed}")
    options.clogs = random.choice((0, 1, 1, 3))
    options.repeat_probability = random.choice((0.0, 0.01, 0.2))
    options.slow_nodes = random.choice((0, 0, 1, options.nodes))
    options.clocks_differ = random.random() < 0.6
    # A jump counts as a second of a lease, which may be over if other faults delay messages too.
    if not (options.breaks or options.node_flaps or options.pair_cuts or options.clogs):
        options.clock_jumps = random.choice((1, options.nodes))
    options.disk_fills = random.choice((0, 1, 5))
    options.stall_probability = random.choice((0.0, 0.0, 0.02))
    if random.random() < 0.25:
        options.fills = random.choice((1, 2, 5))
    elif options.nodes > 1 and random.random() < 0.2:
        options.capacity = random.choice((16_384, 65_536))


def _add_crashes(options: Options) -> None:
    """Add deaths of drivers: some runs lose all drivers, some keep at least one, whose program must not notice."""
    random = Random(f"zray crashes {options.seed}")
    options.drivers = max(options.drivers, random.choice((1, 1, 2, 3)))
    options.driver_kills = random.choice((0, 1, 1, options.drivers))
    options.driver_kill_probability = random.choice((0.0005, 0.002, 0.01, 0.05))
    if not options.driver_kills or random.random() < 0.4:
        options.fork_server_kills = random.choice((1, 1, 2, 4))
        options.fork_server_kill_probability = random.choice((0.0003, 0.001, 0.005, 0.02))


def _add_recovery(options: Options) -> None:
    """Add actors that recover to some runs; the others are unchanged."""
    random = Random(f"zray recovery {options.seed}")
    # Not where the store is too small: each call may then wait FULL_SECONDS for the room of a checkpoint.
    has_room = not options.is_small and (not options.node_drains or _count_that_stays(options) >= 2)
    if random.random() < 0.15 and has_room:
        options.programs = (*options.programs, "ledger")


def _add_backlog(options: Options) -> None:
    """Add more work than a cluster can do soon to some runs; the others are unchanged."""
    random = Random(f"zray backlog {options.seed}")
    if random.random() < 0.2 and options.nodes > 1 and not options.is_small:
        options.programs = (*options.programs, "backlog")


def _add_groves(options: Options) -> None:
    """Some clusters pass large values on from task to task; not where a store may be too full to keep them."""
    random = Random(f"zray groves {options.seed}")
    if random.random() < 0.15 and options.nodes > 1 and not options.is_small:
        options.programs = (*options.programs, "grove")


def _add_groups(options: Options, *, are_wanted: bool) -> None:
    """Add placement groups to some runs; the others are unchanged."""
    from .workloads import GROUP_PROGRAMS

    random = Random(f"zray groups {options.seed}")
    names = sorted(GROUP_PROGRAMS)
    if (options.loses_nodes or options.head_kills) and not are_wanted:
        names.remove("groups_of_actors")
    if are_wanted or (random.random() < 0.2 and not options.node_drains):
        options.cpus = max(options.cpus, 2)  # beside the groups there must be CPUs for others
        options.programs = (*options.programs, *random.sample(names, random.randint(1, len(names))))


def _add_deaths(options: Options) -> None:
    from .workloads import PROGRAMS, PROGRAMS_OF_CLUSTERS, PROGRAMS_WITH_ACTORS

    random = Random(f"zray deaths {options.seed}")
    # If nodes end, work that needs CPUs of several nodes may wait for ever.
    names = sorted(PROGRAMS.keys() - PROGRAMS_OF_CLUSTERS)
    if random.random() < 0.5:
        names = sorted(PROGRAMS_WITH_ACTORS - PROGRAMS_OF_CLUSTERS)
    options.programs = tuple(random.sample(names, random.randint(1, 3)))
    options.node_kills = random.choice((1, 1, 2, options.nodes - 1))
    options.node_kill_probability = random.choice((0.002, 0.01, 0.05))
    if options.nodes > 2:
        options.node_kills = random.choice((0, options.node_kills))
        options.node_freezes = random.choice((0, 0, 1, 2))
        options.node_partitions = random.choice((0, 0, 1, 2))
    elif random.random() < 0.5:
        options.node_kills = 0
        options.node_freezes, options.node_partitions = random.choice(((1, 0), (0, 1)))
    if random.random() < 0.5:
        options.kills = 0
        options.kills_fork_server = False


def _add_head_kills(options: Options, replicas: int) -> None:
    from .workloads import PROGRAMS_THAT_NAME_NODES

    # The head has its own shards, drivers are elsewhere, and some programs want two nodes beside theirs.
    assert options.nodes > 3 and replicas < 3, "a head that is killed needs three other nodes, and replicas < 3"
    random = Random(f"zray heads {options.seed}")
    options.head_kills = random.choice((1, 1, 2, 4))
    options.head_kill_probability = random.choice((0.0005, 0.003, 0.02))
    options.late_node_seconds = 0.0
    options.cpus = max(options.cpus, 2)  # the head may have none
    if options.loses_nodes or random.random() < 0.3:
        options.head_cpus = random.choice((0, options.cpus))
    if options.head_cpus:
        from .workloads import PROGRAMS, PROGRAMS_WITH_ACTORS

        names = sorted(name for name in PROGRAMS if name not in PROGRAMS_WITH_ACTORS)
        options.programs = tuple(random.sample(names, random.randint(1, 3)))
    # Work on the head's own node ends with it.
    kept = tuple(name for name in options.programs if name not in PROGRAMS_THAT_NAME_NODES)
    options.programs = kept or ("tree",)
    if random.random() < 0.7:
        options.kills, options.kills_fork_server, options.start_failure_probability = 0, False, 0.0


def _add_drains(options: Options) -> None:
    from .workloads import PROGRAMS_THAT_NEED_NODES

    # Where the driver is stays, and the head.
    can_leave = _count_that_stays(options)
    assert can_leave, "no node can leave"
    random = Random(f"zray drains {options.seed}")
    options.node_drains = random.randint(1, can_leave)
    if _count_that_stays(options) < 2:
        kept = tuple(name for name in options.programs if name not in PROGRAMS_THAT_NEED_NODES)
        options.programs = kept or ("tree",)


def _count_that_stays(options: Options) -> int:
    """Return the number of nodes never told to leave, beside the drivers' node and the head."""
    return options.nodes - (2 if options.head_kills else 1) - options.node_drains


def _options_of(seed: int, nodes: int) -> Options:
    from .workloads import PROGRAMS, PROGRAMS_OF_CLUSTERS

    random = Random(f"zray options {seed}")
    nodes = nodes or (3 if random.random() < 0.2 else 1)
    names = sorted(name for name in PROGRAMS if nodes > 2 or name not in PROGRAMS_OF_CLUSTERS)
    options = Options(
        seed=seed,
        nodes=nodes,
        cpus=random.choice((1, 1, 2, 2, 3, 4)),
        drivers=random.choice((1, 1, 1, 2, 3)) if nodes == 1 else 1,
        programs=tuple(random.sample(names, random.randint(1, 3))),
        delay=random.choice(("even", "local", "local", "loaded", "far")),
        turn_delay_max=random.choice((0.0, 50e-6, 50e-6, 1e-3)),
        inline_bytes_max=random.choice((100, 200, 1000)),
        flush_every=random.choice((1, 4, 16, 64)),
    )
    if nodes == 1 and random.random() < 0.2:
        # A store, or memory, that is too small for all values at once.
        options.capacity = random.choice((4_096, 65_536, 1 << 22))
        options.pages_max = random.choice((4, 60, 1 << 20))
    if nodes > 1:
        options.breaks = random.choice((0, 0, 3, 8))
    if random.random() < (0.6 if nodes == 1 else 0.3):
        options.kills = random.choice((1, 2, 3, 3, 8))
        options.kill_probability = random.choice((0.001, 0.01, 0.05))
    if nodes == 1:
        options.kills_driver = options.drivers > 1 and random.random() < 0.4
        options.breaks = random.choice((0, 0, 0, 2, 5))
    options.kills_fork_server = random.random() < 0.1
    options.start_failure_probability = random.choice((0.0, 0.0, 0.0, 0.1))
    options.slow_worker_probability = random.choice((0.0, 0.0, 0.3))
    return options
