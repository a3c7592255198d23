"""The roster of keys, members and lost nodes outlives its head (docs/security.md, S4, S6, B25, B26)."""

import os
import re
import stat

import pytest

from zray.exceptions import ZrayError
from zray.host.cluster import head_state as state_module
from zray.host.cluster import membership_log as roster_module
from zray.host.cluster.head_state import StateFolder
from zray.host.cluster.membership_log import LOST_MAX, Roster
from zray.host.security.keyring import Key, KeyPair, Token, read_secret, replace_secret
from zray.wire.gcs import RegisterNode


def drawn(kind="node", name="a" * 16, **more):
    return Key(KeyPair.draw().public, kind, name, **more)


def member(name, kind="node"):
    return RegisterNode(f"{name}/local", {"CPU": 10_000}, kind, "127.0.0.1:1", b"k" * 32)


@pytest.fixture
def again(tmp_path):
    """`again()`: the roster of a head that is started again, as often as is asked for."""
    made = []

    def start():
        if made:
            made.pop().close()
        made.append(Roster(str(tmp_path / "members")))
        return made[-1]

    yield start
    for roster in made:
        roster.close()


def test_a_new_one_lets_nobody_in(again):
    roster = again()
    assert not roster.hosts() and not roster.members and not roster.lost and not roster.ring.keys


def test_who_has_joined_is_let_in_by_the_next_head(again):
    roster, token, key = again(), drawn("joiner", "token", uses_left=2), drawn()
    roster.enter(token)
    roster.join(token, key, "10.0.0.7")
    roster.registered(member("a" * 16))
    for _ in range(3):
        roster = again()
        assert [(found.public, seen_at) for found, seen_at in roster.hosts()] == [(key.public, "10.0.0.7")]
        assert roster.ring.find(token.public).uses_left == 1
        assert list(roster.members.values()) == [member("a" * 16)]


def test_uses_of_a_token_are_counted_over_deaths(again):
    roster, token = again(), drawn("joiner", "token", uses_left=2)
    roster.enter(token)
    for number in range(2):
        assert again().ring.find(token.public) is not None
        roster = again()
        roster.join(roster.ring.keys[token.public], drawn(name=f"{number:016x}"), "")
    assert again().ring.why_not(token.public) == "unknown key"  # used up, and not kept


def test_what_was_revoked_stays_out(again):
    roster, key = again(), drawn()
    roster.join(drawn("joiner"), key, "")
    roster.revoke(key)
    assert "revoked" in roster.ring.why_not(key.public)
    for _ in range(2):
        assert again().ring.find(key.public) is None


def test_a_verdict_is_final_over_deaths(again):
    roster, key = again(), drawn(name="b" * 16)
    roster.join(drawn("joiner"), key, "")
    roster.registered(member("b" * 16))
    roster.judged("b" * 16 + "/local", "silent")
    for _ in range(3):
        roster = again()
        assert roster.lost == {"b" * 16 + "/local": "silent"} and not roster.members and not roster.hosts()
        assert roster.ring.find(key.public) is None


def test_members_keep_their_order(again):
    names = [f"{number * 7 % 10:016x}" for number in range(10)]
    roster = again()
    for name in names:
        roster.registered(member(name))
    roster.judged(f"{names[3]}/local", "")
    assert list(again().members) == [f"{name}/local" for name in names if name != names[3]]


def test_its_log_has_an_end(again, tmp_path, monkeypatch):
    """Programs of other machines come and go for years: one life of a head."""
    monkeypatch.setattr(roster_module, "LOG_RECORDS_MAX", 50)
    monkeypatch.setattr(roster_module, "LOST_MAX", 200)
    roster, token, stays = again(), drawn("joiner", "token"), drawn(name="f" * 16)
    roster.enter(token)
    roster.join(token, stays, "10.0.0.7")
    sizes = []
    for number in range(300):
        key = drawn("driver", f"{number:016}")
        roster.join(token, key, "10.0.0.8")
        roster.registered(member(key.name, "driver"))
        roster.judged(f"{key.name}/local", "it has ended")
        sizes.append(sum(file.stat().st_size for file in (tmp_path / "members").iterdir()))
    assert max(sizes[240:]) < 1.2 * max(sizes[200:240])
    assert roster.ring.why_not(key.public).startswith("revoked key of driver"), "its refusal says why"
    lost = dict(roster.lost)
    roster = again()
    assert [found.public for found, _ in roster.hosts()] == [stays.public]
    assert roster.lost == lost and not roster.members


def test_old_verdicts_are_forgotten(again):
    roster = again()
    for number in range(LOST_MAX + 10):
        roster._apply(roster_lost(number))
    records = list(roster._records())
    assert len(records) == LOST_MAX and records[0] == roster_lost(10)


def roster_lost(number):
    from zray.host.cluster.membership_log import Lost

    return Lost(f"{number}/local", "")


def test_a_record_that_is_none_is_refused_with_its_place(again, tmp_path):
    again()._store.append([b"\xff\xff"])
    with pytest.raises(ZrayError, match=r"log-\d+ at byte \d+: no record of a roster"):
        again()


def test_a_full_disk_refuses_who_wants_to_join_and_not_a_verdict(again, monkeypatch):
    roster, lines = again(), []
    roster.log = lines.append
    roster.registered(member("c" * 16))

    def full(records):
        raise StoreFull("no space left on device")

    from zray.store.durable import StoreFull

    monkeypatch.setattr(roster._store, "append", full)
    key = drawn()
    with pytest.raises(StoreFull):
        roster.join(drawn("joiner"), key, "")
    assert roster.ring.find(key.public) is None
    roster.judged("c" * 16 + "/local", "silent")
    assert not roster.members and "not recorded on disk" in lines[0]


# --- the folder ---


@pytest.fixture
def folder(tmp_path):
    """`folder(**asked)`: the state of a head, and of the one that follows it."""
    made = []

    def start(**asked):
        if made:
            made.pop().close()
        made.append(StateFolder(str(tmp_path / "state"), asked))
        return made[-1]

    yield start
    for state in made:
        state.close()


def test_a_head_has_its_key_its_token_and_its_plan_again(folder, tmp_path):
    state = folder(shards=3, host="127.0.0.2")
    keys = state.head_keys()
    token = state.token(keys.public)
    state.settle(4711)
    again = folder()
    assert (again.plan.shards, again.plan.replicas, again.plan.host, again.plan.port) == (3, 1, "127.0.0.2", 4711)
    assert again.head_keys().secret == keys.secret
    assert again.token(keys.public).encode() == token.encode()
    assert folder(replicas=2).plan.replicas == 2
    for name in ("head.key", "token", "plan.json"):
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600


def test_a_token_that_is_good_no_more_is_replaced(folder):
    state = folder()
    keys = state.head_keys()
    token = state.token(keys.public)
    state.roster.revoke(state.roster.ring.keys[token.pair.public])
    new = state.token(keys.public)
    assert new.encode() != token.encode() and state.roster.ring.find(new.pair.public) is not None
    assert folder().token(keys.public).encode() == new.encode()


@pytest.mark.parametrize("name", ["head.key", "token"])
def test_a_secret_that_others_may_read_stops_the_head(folder, tmp_path, name):
    """docs/security.md, B26."""
    state = folder()
    state.token(state.head_keys().public)
    (tmp_path / "state" / name).chmod(0o644)
    with pytest.raises(ZrayError, match="mode 0644"):
        state.token(state.head_keys().public)


def test_a_key_that_is_none_stops_the_head(folder, tmp_path):
    state = folder()
    replace_secret(str(tmp_path / "state" / "head.key"), b"short")
    with pytest.raises(ZrayError, match="holds no key"):
        state.head_keys()


def test_a_link_in_the_place_of_the_key_is_not_followed(folder, tmp_path):
    """docs/security.md, B25."""
    state = folder()
    secret = tmp_path / "elsewhere"
    secret.write_bytes(b"k" * 32)
    secret.chmod(0o600)
    (tmp_path / "state" / "head.key").symlink_to(secret)
    with pytest.raises(ZrayError, match="is a link"):
        state.head_keys()


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    """docs/security.md, B26."""
    os.mkdir(tmp_path / "state")
    (tmp_path / "state").chmod(0o755)
    with pytest.raises(PermissionError, match="755"):
        StateFolder(str(tmp_path / "state"), {})


def test_a_secret_is_replaced_whole(tmp_path):
    path = tmp_path / "secret"
    replace_secret(str(path), b"one")
    (tmp_path / "secret.new").write_bytes(b"half")  # a death has left it
    replace_secret(str(path), b"two")
    assert read_secret(str(path)) == b"two" and not (tmp_path / "secret.new").exists()
    target = tmp_path / "target"
    target.write_bytes(b"other")
    link = tmp_path / "link"
    link.symlink_to(target)
    replace_secret(str(link), b"three")
    assert target.read_bytes() == b"other" and read_secret(str(link)) == b"three"


def test_nothing_of_a_token_is_in_the_roster(folder, tmp_path):
    """Only the public half of a token is in it (docs/security.md, S6)."""
    state = folder()
    token = state.token(state.head_keys().public)
    folder()
    for path in (tmp_path / "state" / "members").iterdir():
        data = path.read_bytes()
        assert token.pair.secret not in data and token.encode().encode() not in data
    assert Token.decode((tmp_path / "state" / "token").read_text()).pair.secret == token.pair.secret


def test_a_head_whose_nodes_wait_for_it_on_one_port_is_not_started_on_another(tmp_path):
    """They would not find it; and the next one would listen there, too."""
    path = str(tmp_path / "state")
    state = StateFolder(path, {})
    state.settle(6379)
    state.roster.registered(member("a" * 16))
    state.close()
    with pytest.raises(ZrayError, match="on port 6379, .* and not on 7777: leave --port out"):
        StateFolder(path, {"port": 7777})
    for asked in ({}, {"port": 6379}):
        state = StateFolder(path, asked)
        assert state.plan.port == 6379
        state.close()
    state = StateFolder(path, {})
    state.roster.judged(f"{'a' * 16}/local", "it ended")
    state.close()
    state = StateFolder(path, {"port": 7777})
    state.settle(7777)
    state.close()
    state = StateFolder(path, {})
    assert state.plan.port == 7777
    state.close()


def test_a_head_is_started_again_on_a_full_disk(tmp_path, monkeypatch):
    """What it would write stands there already."""
    path = str(tmp_path / "state")
    state = StateFolder(path, {})
    state.settle(6379)
    state.close()

    def refuse(path, secret):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_module, "replace_secret", refuse)
    state = StateFolder(path, {})
    state.settle(6379)
    with pytest.raises(ZrayError, match=r"cannot write .*plan.json: No space left on device"):
        state.settle(7777)
    state.close()


@pytest.mark.parametrize("name", ["head.key", "token", "plan.json"])
def test_a_flipped_bit_stops_the_head_with_the_name_of_the_file(folder, tmp_path, name):
    def start():
        state = folder()
        return state.token(state.head_keys().public).encode(), state.plan.port

    state = folder(shards=2)
    token = state.token(state.head_keys().public).encode()
    state.settle(4711)
    path = tmp_path / "state" / name
    whole = path.read_bytes()
    for place in range(0, len(whole) - 1, 3):  # the last character of the token has two bits to spare
        for bit in (0, 4):
            path.write_bytes(whole[:place] + bytes((whole[place] ^ (1 << bit),)) + whole[place + 1 :])
            try:
                found = start()
            except ZrayError as error:
                assert str(path) in str(error)
            else:  # of the name of the check itself: the plan is sound
                assert name == "plan.json" and found == (token, 4711) and b'"check"' not in path.read_bytes()
    path.write_bytes(whole)
    assert start() == (token, 4711)


def test_files_of_former_heads_have_no_check(folder, tmp_path):
    state = folder()
    keys = state.head_keys()
    state.settle(4711)
    (tmp_path / "state" / "head.key").write_bytes(keys.secret)
    plan = tmp_path / "state" / "plan.json"
    plan.write_bytes(re.sub(rb',"check":"\w+"', b"", plan.read_bytes()))
    again = folder()
    assert again.head_keys().secret == keys.secret and again.plan.port == 4711
