"""Versions that differ a little are reported to the program once; larger differences are an error there."""

import gc
import os

import pytest

import zray
from zray.exceptions import ProtocolError
from zray.host.driver import driver
from zray.host.links import compatibility


@pytest.fixture
def other_version(monkeypatch, start):
    """This process believes itself to be of another zray than the session that it starts."""

    def become(version):
        monkeypatch.setattr(compatibility, "__version__", version)
        monkeypatch.setattr(driver, "__version__", version)

    return become


def test_a_program_of_another_patch_says_so_and_works(other_version, start, capfd):
    own = zray.__version__
    other_version(f"{own}.post7")
    start(num_cpus=1)
    assert zray.get(zray.remote(lambda: 42).remote(), timeout=20) == 42
    said = f"zray: this program runs zray {own}.post7, the session {own}: they should understand each other.\n"
    assert capfd.readouterr().err.count(said) == 1


def test_a_program_of_another_minor_version_is_refused(other_version, start):
    own = zray.__version__
    other_version("9.8.7")
    open_files = []
    for _ in range(3):
        with pytest.raises(ProtocolError, match=rf"this session runs zray {own}, the driver 9\.8\.7: install the same"):
            start(num_cpus=1)
        gc.collect()  # the error, and whom it has met
        open_files.append(os.listdir("/proc/self/fd"))
    assert len(open_files[1]) == len(open_files[2]), "it leaves nothing here"


@pytest.mark.parametrize("version, minor", [("0.1.0", "0.1"), ("0.1.0.post7", "0.1"), ("1", "1"), ("", "")])
def test_the_minor_version(version, minor):
    assert compatibility.minor_of(version) == minor
