"""Ports of the loopback interface."""

import socket

__all__ = ["free", "in_use"]


def free() -> int:
    """Find a port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def in_use(port: int) -> bool:
    """Tell whether nobody else could listen on ``port``, which a connection still closing does not prevent."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
