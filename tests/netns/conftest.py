"""Hosts in namespaces, where this machine and this user can have them."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.netns.network import Network, NoNamespaces


def why_not():
    """Why there can be no namespaces here; "" where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "unshare", "nsenter", "mount") if shutil.which(tool) is None]
    return f"{', '.join(missing)} is not installed" if missing else ""


@pytest.fixture
def network(nothing_left, request):
    """A switch without hosts."""
    if reason := why_not():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="net", dir=request.config.zray_folder))
    try:
        made = Network(folder)
    except NoNamespaces as error:
        folder.rmdir()
        pytest.skip(f"no namespaces here: {error}")
    yield made
    if request.session.testsfailed:
        for host in made.hosts:
            print(f"--- node.log of {host.name}\n{host.logs()}")
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def hosts(network):
    """Three of them."""
    return [network.add(name) for name in "abc"]


@pytest.fixture
def cluster(hosts):
    """(address, token) of a cluster with a node on each of the three hosts; the head is on the first."""
    cluster = hosts[0].start_head()
    for host in hosts[1:]:
        host.join(cluster)
    return cluster
