"""`zray start --gcs-store`: what is refused before anything starts, and what is said of a server that is not fit."""

import re

import pytest
from click.testing import CliRunner

from cli.main import main
from tests.cli.commands import statuses, zray
from tests.store.redis_servers import needs_server, running


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--head", "--gcs-store", "redis://localhost"], "gcs_store needs state_dir (--state-dir)"),
        (["--head", "--gcs-store", "http://localhost", "--state-dir", "x"], "gcs_store must be redis://HOST:PORT/DB"),
        (["--head", "--gcs-store", "redis://:hidden@localhost", "--state-dir", "x"], "set ZRAY_GCS_STORE_PASSWORD"),
        (
            ["--head", "--gcs-store", "redis+sentinel://localhost", "--state-dir", "x"],
            "A store behind Redis Sentinel is not built: name one server.",
        ),
        (["--address", "localhost:1", "--gcs-store", "redis://localhost"], "--gcs-store is an option of the head"),
        (["--head", "--gcs-store-password-file", "/absent/file"], "cannot be read from /absent/file: No such file"),
    ],
)
def test_wrong_usage_starts_nothing(arguments, said):
    result = CliRunner().invoke(main, ["start", *arguments])
    assert result.exit_code == 2 and said in re.sub(r"\s+", " ", result.output) and "hidden" not in result.output


@needs_server
def test_accepted_settings_are_repeated_by_status_and_others_are_refused(nothing_left, tmp_path):
    with running(appendfsync="everysec") as server:
        refused = zray("start", "--head", "--port", "0", "--state-dir", str(tmp_path / "a"), *store(server))
        assert refused.returncode == 1 and "Traceback" not in refused.stderr
        assert "set `appendfsync always`, or accept the loss of a second by ?durability=everysec" in refused.stderr
        where = store(server, "?durability=everysec")
        done = zray("start", "--head", "--port", "0", "--num-cpus", "1", "--state-dir", str(tmp_path / "a"), *where)
        assert done.returncode == 0, done.stderr
        notice = server.address(durability="everysec").notice
        assert [fact["stalls"] for fact in statuses().values()] == [[notice]]
        assert notice in zray("status").stdout.splitlines()
        assert zray("stop", "--all").returncode == 0


def store(server, query=""):
    return "--gcs-store", f"unix://{server.socket}{query}"
