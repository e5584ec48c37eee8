"""Ports of the loopback interface."""

import socket

__all__ = ["free", "in_use"]


def free() -> int:
    """Return a currently free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def in_use(port: int) -> bool:
    """Return whether ``port`` cannot be bound; a connection in ``TIME_WAIT`` does not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
