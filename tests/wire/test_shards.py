"""The mapping of ids to shards: one for all roles, and the same for ever."""

import re

from tests.scripts import ROOT
from zray.ids import return_id
from zray.roles.gcs.keeping import Keeping
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.local_scheduler.addresses import Addresses
from zray.wire.shards import shard_number

IDS = [bytes(number * factor % 256 for factor in range(1, 17)) for number in range(1, 200)]
COUNTS = (1, 2, 3, 4, 5, 7, 8, 64)


def test_the_numbers_are_what_records_on_disk_follow():
    assert [shard_number(IDS[0], count) for count in COUNTS] == [0, 0, 1, 0, 0, 4, 0, 16]
    assert [shard_number(IDS[-1], count) for count in COUNTS] == [0, 0, 1, 0, 1, 3, 0, 48]


def test_a_task_and_its_returns_are_of_one_shard():
    for count in COUNTS:
        for task_id in IDS:
            assert {shard_number(return_id(task_id, index), count) for index in range(3)} == {
                shard_number(task_id, count)
            }


def test_all_roles_agree():
    for count in COUNTS:
        shards = [f"gcs-{number}" for number in range(count)]
        local = Addresses("objects", ["global"], shards, "monitor")
        placing, keeping = GlobalScheduler("global", shards), Keeping(0, count)
        for task_id in IDS:
            number = shard_number(task_id, count)
            assert local.shard_of(task_id) == shards[number] == placing._shard_of(task_id)
            assert keeping.shard_of(task_id) == number


def test_no_other_module_computes_a_shard():
    remainder = re.compile(r"\[6:16\].*%\s*(len\(.*shards\)|.*shards)")
    found = [
        str(path.relative_to(ROOT))
        for folder in ("roles", "wire", "host", "store", "sim", "api")
        for path in sorted((ROOT / "zray" / folder).rglob("*.py"))
        if remainder.search(path.read_text())
    ]
    assert found == ["zray/wire/shards.py"]
