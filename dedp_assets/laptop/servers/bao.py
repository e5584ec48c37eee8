"""OpenBao on loopback: the server of secrets of ``DEDP_SECRETS=bao``.

The server lives in ``$DEDP_HOME/bao``. At its first start it is initialized; the key that unseals the server and the
owner's login are kept there, readable by the owner alone, so that a start needs nobody. Whoever can read these files
can read all secrets: a server elsewhere, which somebody else unseals, does not have this weakness.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from dedp_assets.graph.resources.announced import announce
from dedp_assets.graph.systems.secrets import ADMINISTRATOR, FOLDER, LOGIN, PKI, ROLE, TOKENS, WRAPPING
from dedp_assets.laptop.servers import ports
from dedp_assets.patterns.connectors.secrets.key_files import KEY_BYTES, replace_private
from dedp_assets.patterns.connectors.secrets.store import VALUE
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.extras import needs

__all__ = ["FOLDER", "command", "is_ready", "url"]

_HOST = "127.0.0.1"
_UNSEALED_BY, _SETTINGS = "unseal", "server.json"
_POLICY = "dedp-runs"
_RULE = """
path "secret/data/*" { capabilities = ["read"] }
path "pki/issue/clients" { capabilities = ["update"] }
"""
_MOUNT = "secret"
_RUNS = "auth/approle/role/runs"
_KEPT_INSIDE = "root/generate/internal"
"""The request for an authority whose key stays in the server, below the mount."""
_MINUTES, _DAY, _YEARS = "20m", "24h", "87600h"
_CLIENTS = {
    "allow_any_name": True,
    "enforce_hostnames": False,
    "server_flag": False,
    "client_flag": True,
    "key_type": "ec",
    "key_bits": 256,
    "max_ttl": "24h",
    "not_before_duration": "60s",
}
"""Role of the engine of certificates: client certificates of a day at most, under any name."""
_PATIENCE_SECONDS = 120


def url(port: int) -> str:
    """Return the URL of the server at a port on loopback."""
    return f"http://{_HOST}:{port}"


def command(folder: Path, *, port: int) -> list[str]:
    """Make the server's folder, unless present, announce the URL, and return the server's command.

    Args:
        folder: folder of the server.
        port: port of the API on loopback.

    Raises:
        ConfigError: if the program is not installed, or the file that unseals the server is lost.
    """
    beside = Path(sys.executable).with_name("bao")
    program = str(beside) if beside.exists() else shutil.which("bao")
    if program is None:
        raise ConfigError(f"the server of secrets of DEDP_SECRETS=bao {needs('local')}")
    data = folder / "data"
    if (data / "vault.db").exists() and not (folder / _UNSEALED_BY).exists():
        raise ConfigError(
            f"{folder} must have the file {_UNSEALED_BY}, without which nobody can read the secrets: restore the file, "
            "or remove the folder and store the secrets again"
        )
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    stated = {
        "storage": {"raft": {"path": str(data), "node_id": "one"}},
        "listener": {"tcp": {"address": f"{_HOST}:{port}", "tls_disable": True}},
        "api_addr": url(port),
        "cluster_addr": f"http://{_HOST}:{ports.free()}",
        "ui": False,
    }
    replace_private(folder / _SETTINGS, json.dumps(stated).encode())
    announce(folder, url(port))
    return [program, "server", f"-config={folder / _SETTINGS}"]


def is_ready(folder: Path, *, port: int) -> bool:
    """Return whether the server takes and gives secrets; initialize and unseal the server if needed."""
    server = VaultServer(url(port), folder / ADMINISTRATOR)
    try:
        state = server.ask("GET", "sys/seal-status", login="")
        if not state["initialized"]:
            _initialize(server, folder)
        elif not (folder / _UNSEALED_BY).exists():
            return False
        if state["sealed"]:
            server.ask("POST", "sys/unseal", {"key": (folder / _UNSEALED_BY).read_text()}, login="")
        server.ask("GET", "sys/health", login="")
        if f"{_MOUNT}/" not in server.ask("GET", "sys/mounts")["data"]:
            server.ask("POST", f"sys/mounts/{_MOUNT}", {"type": "kv", "options": {"version": "2"}})
        for name in {WRAPPING, TOKENS} - {*server.paths()}:  # not yet: the engine needs a second after it was made
            server.write(name, {VALUE: token_hex(KEY_BYTES)})
        _make_authority(server)
        _let_runs_read(server, folder)
    except NotReady:
        return False
    return True


def _initialize(server: VaultServer, folder: Path) -> None:
    # Whoever does not hear the answer has lost the keys.
    made = replace(server, timeout_seconds=_PATIENCE_SECONDS).ask(
        "POST", "sys/init", {"secret_shares": 1, "secret_threshold": 1}, login=""
    )
    replace_private(folder / _UNSEALED_BY, made["keys"][0].encode())
    replace_private(folder / ADMINISTRATOR, made["root_token"].encode())


def _make_authority(server: VaultServer) -> None:
    """Make the authority of client certificates, unless present; the key never leaves the server."""
    if f"{PKI}/" not in server.ask("GET", "sys/mounts")["data"]:
        server.ask("POST", f"sys/mounts/{PKI}", {"type": "pki", "config": {"max_lease_ttl": _YEARS}})
    if server.ask("GET", f"{PKI}/issuers?list=true") is None:
        stated = {"common_name": "dedp clients", "ttl": _YEARS, "key_type": "ec", "key_bits": 256}
        server.ask("POST", f"{PKI}/{_KEPT_INSIDE}", stated)
    server.ask("POST", f"{PKI}/roles/clients", _CLIENTS)


def _let_runs_read(server: VaultServer, folder: Path) -> None:
    """Make the AppRole of runs: read access to every secret, and client certificates.

    Each process logs in by the role; a secret id that the server does not know is exchanged.
    """
    server.ask("PUT", f"sys/policies/acl/{_POLICY}", {"policy": _RULE})
    if "approle/" not in server.ask("GET", "sys/auth")["data"]:
        server.ask("POST", "sys/auth/approle", {"type": "approle"})
    server.ask("POST", _RUNS, {"token_policies": [_POLICY], "token_ttl": _MINUTES, "token_max_ttl": _DAY})
    role, file = server.ask("GET", f"{_RUNS}/role-id")["data"]["role_id"], folder / LOGIN
    named = (folder / ROLE).exists() and (folder / ROLE).read_text() == role and file.exists()
    if named and server.ask("POST", f"{_RUNS}/secret-id/lookup", {"secret_id": file.read_text()}):
        return
    made = server.ask("POST", f"{_RUNS}/secret-id", {})
    replace_private(file, made["data"]["secret_id"].encode())
    replace_private(folder / ROLE, role.encode())
