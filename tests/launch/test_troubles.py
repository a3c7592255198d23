"""Texts of ssh and of `zray start`, as one line with the remedy."""

import pytest

from cli.launch import troubles

# As OpenSSH 9.2 prints them.
SSH = {
    "ssh: Could not resolve hostname nod1: Name or service not known": "the name is not known",
    "ssh: connect to host b port 22: Connection refused": "no sshd listens there",
    "ssh: connect to host b port 22: No route to host": "it cannot be reached",
    "ssh: connect to host b port 22: Connection timed out": "it cannot be reached",
    "Connection timed out during banner exchange": "it cannot be reached",
    "b@host: Permission denied (publickey,password).": "`ssh-copy-id b`",
    "No ED25519 host key is known for b and you have requested strict checking.\nHost key verification failed.": (
        "its host key is not known: `ssh b` once"
    ),
    "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.": "`ssh-keygen -R b`",
    "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures": "IdentitiesOnly",
    "@ WARNING: UNPROTECTED PRIVATE KEY FILE! @\nroot@b: Permission denied (publickey).": "`chmod 600`",
    "kex_exchange_identification: Connection closed by remote host": "MaxStartups",
    "command-line: line 0: Bad configuration option: nonsense": "correct `ssh:`",
    "something new": "ssh failed (something new): try `ssh b true`",
}


@pytest.mark.parametrize("text, words", SSH.items(), ids=[text[:40] for text in SSH])
def test_failure_of_ssh_has_a_remedy(text, words):
    said = str(troubles.of_ssh(text, 255, "b", "python3"))
    assert words in said and "\n" not in said


LOGINS = {
    ("sh: 1: exec: python9: not found", 127): "python9 was not found or cannot run: name the Python",
    ("bash: /v/bin/python: Permission denied", 126): "was not found or cannot run",
    ('  File "<string>", line 1\nSyntaxError: invalid syntax', 1): "is no Python 3",
    ("cannot fork: Cannot allocate memory", 254): "it has no free memory",
    ("This account is currently not available.", 1): "ended with status 1 (This account",
}


@pytest.mark.parametrize(("text", "status"), LOGINS, ids=[text[:30] for text, _ in LOGINS])
def test_login_without_an_agent_has_a_remedy(text, status):
    assert LOGINS[text, status] in str(troubles.of_ssh(text, status, "b", "python9"))


COMMANDS = {
    "Error: This head cannot listen where it should: port 6379 of 10.0.0.1 is taken.": "options: {port: ...}",
    "Error: [Errno 28] No space left on device: '/tmp/zray-0'": "its disk is full: make room on it",
    "OSError: [Errno 12] Cannot allocate memory": "it has no free memory: end programs there",
    "Usage: zray start\n\nError: '10.0.0.7' is no address of this machine: x": "`hostname -I`",
    "Error: something else": "failed with status 1 (something else): see b.log",
}


@pytest.mark.parametrize("text, words", COMMANDS.items(), ids=[text[:40] for text in COMMANDS])
def test_failure_of_a_command_has_a_remedy(text, words):
    assert words in str(troubles.of_command(text, 1, "zray start", "b.log"))


def test_cut_login_is_one_that_may_be_tried_again():
    assert troubles.is_cut("kex_exchange_identification: read: Connection reset by peer")
    assert troubles.is_cut("mux_client_request_session: read from master failed: Broken pipe")
    assert not troubles.is_cut("root@b: Permission denied (publickey).")
    assert not troubles.is_cut("")
