"""TLS of a laptop's PostgreSQL: certificates, options of the server, and settings of clients.

A server that requires TLS refuses plain connections. Users log in by password; a role in :data:`CERTIFIED` logs in by
a certificate of the home's authority with the role's name, and by nothing else.
"""

from __future__ import annotations

import os
import pwd
from datetime import datetime, timedelta
from pathlib import Path

from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import Certificate
from dedp_assets.patterns.connectors.secrets.key_files import replace_private

__all__ = ["CERTIFIED", "authority", "client_settings", "server_certificate", "server_options"]

CERTIFIED = "certified"
"""Role whose members log in by certificate only."""
_FOLDER = "tls"
_HOSTS = ("localhost", "127.0.0.1")
_LASTS = timedelta(days=365)
_RULES = f"""\
hostnossl all         all           all          reject
hostssl   all         +{CERTIFIED}  127.0.0.1/32 cert
hostssl   all         all           127.0.0.1/32 scram-sha-256
hostssl   replication +{CERTIFIED}  127.0.0.1/32 cert
hostssl   replication all           127.0.0.1/32 scram-sha-256
"""


def authority(folder: Path, *, at: datetime) -> Authority:
    """Return the certificate authority of a server's folder, created at the first call.

    Args:
        folder: the server's folder.
        at: the time now.
    """
    made = Authority.of(folder / _FOLDER, at=at)
    made.path.parent.chmod(0o755)  # the server may be another user
    return made


def server_options(folder: Path, *, at: datetime, user: pwd.struct_passwd | None) -> list[str]:
    """Issue the server's certificate, and return the options of a server that requires TLS.

    The data folder stays as it is: a server that starts without these options serves plain connections.

    Args:
        folder: the server's folder.
        at: the time now; the certificate is valid for a year, and is another one at the next start.
        user: the server's user; ``None`` for this process's.
    """
    place = folder / _FOLDER
    server = server_certificate(folder, at=at, user=user)
    rules = place / "pg_hba.conf"
    replace_private(rules, _RULES.encode(), mode=0o644)
    stated = {"ssl": "on", "ssl_cert_file": server.path, "ssl_key_file": server.key, "ssl_ca_file": place / "ca.pem"}
    return [word for name, value in {**stated, "hba_file": rules}.items() for word in ("-c", f"{name}={value}")]


def server_certificate(folder: Path, *, at: datetime, user: pwd.struct_passwd | None) -> Certificate:
    """Issue the server's certificate by the current authority.

    A running server reads the file at ``pg_reload_conf()``.

    Args:
        folder: the server's folder.
        at: the time now.
        user: the server's user; ``None`` for this process's.
    """
    made = authority(folder, at=at).issue(
        "server", folder / _FOLDER, begins=at - timedelta(minutes=5), ends=at + _LASTS, hosts=_HOSTS
    )
    if user is not None:
        os.chown(made.key, user.pw_uid, user.pw_gid)
    return made


def client_settings(folder: Path) -> dict[str, str]:
    """Return the settings of libpq for a folder's running server; empty without TLS."""
    if "ssl=on" not in (folder / "data" / "postmaster.opts").read_text():
        return {}
    return {"sslmode": "verify-full", "sslrootcert": str(folder / _FOLDER / "ca.pem")}
