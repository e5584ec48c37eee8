"""Addresses that servers of this machine announce in their folders."""

from __future__ import annotations

import socket
import stat

import pytest

from dedp_assets.graph.resources.announced import announce, announced, withdraw


@pytest.fixture
def port():
    """A port that somebody listens on while the test runs."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


URL = "postgresql://me:secret@127.0.0.1:{}/shop"


@pytest.mark.parametrize(
    "address", ["127.0.0.1:{}", URL, f"{URL}?sslmode=verify-full&sslrootcert=%2Fa%20home%2Fca.pem"]
)
def test_an_address_counts_until_it_is_withdrawn(tmp_path, port, address):
    """Whoever looks into the folder finds it, and only its user may read it."""
    assert announced(tmp_path) == ""
    announce(tmp_path, address.format(port))
    assert announced(tmp_path) == address.format(port)
    (written,) = tmp_path.iterdir()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    withdraw(tmp_path)
    assert announced(tmp_path) == ""


def test_the_address_of_a_server_that_is_gone_is_not_taken(tmp_path):
    """A crash leaves the file behind; nobody answers at that port."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        announce(tmp_path, f"127.0.0.1:{closed.getsockname()[1]}")
    assert announced(tmp_path) == ""
