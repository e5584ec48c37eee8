"""Secrets as a Dagster resource without fields, so that run configs hold no secret.

The store is an encrypted file of the home, the laptop's own server, or any Vault-compatible server by URL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import dagster as dg

from dedp_assets.graph.resources.announced import announced
from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.graph.resources.keys import masking_key
from dedp_assets.patterns.connectors.secrets.key_files import KEY_BYTES, secret_in
from dedp_assets.patterns.connectors.secrets.sealed_file import SealedFile
from dedp_assets.patterns.connectors.secrets.store import VALUE
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.security.encryptor import KeyRing
from dedp_assets.patterns.security.pseudo_anonymizer import TokenVault
from dedp_assets.patterns.security.secrets_pointer import SecretPointers, read_secret

__all__ = [
    "ADMINISTRATOR", "FOLDER", "LOGIN", "OWN", "PKI", "ROLE", "TOKENS", "WRAPPING", "Secrets", "lacking",
    "store_of",
]  # fmt: skip

OWN = "bao"
"""``DEDP_SECRETS``: `dedp up` runs a server of secrets."""
FOLDER = "bao"
"""Folder of the home with the own server's address, logins and secrets."""
LOGIN, ROLE, ADMINISTRATOR = "login", "role", "administrator"
"""Files of the own server's folder: secret id and id of the role of runs, which only read, and the owner's token."""
WRAPPING = "keys/columns"
"""Name of the secret that wraps the keys of encrypted columns."""
TOKENS = "keys/tokens"
"""Name of the secret by which the vault of tokens finds and encrypts values."""
PKI = "pki"
"""Engine of the own server that signs client certificates."""
_SEALED, _RING, _VAULT = "secrets", "keys/columns.ring", "keys/tokens.vault"


class Secrets(dg.ConfigurableResource[Any]):
    """The keys of the platform, and secrets by name."""

    def masking_key(self) -> MaskingKey:
        """Return the key of pseudonyms: ``DEDP_MASKING_KEY``, or a key of this home, created at the first use.

        Raises:
            ConfigError: if the setting is not 64 hexadecimal digits; the text does not repeat it.
        """
        return masking_key(settings())

    def pointers(self, identity: str, *, granted: Sequence[str]) -> SecretPointers:
        """Return the granted names of a run, with a cache that all runs of an identity in this process share.

        Args:
            identity: name of the asset, the job or the person.
            granted: names of the secrets that it may read.

        Raises:
            ConfigError: for a grant of everything.
            NotReady: if the laptop's own server is asked for and does not run.
        """
        return _pointers(store_of(settings()), identity, tuple(granted))

    def key_ring(self, identity: str) -> KeyRing:
        """Return the ring of the keys of encrypted columns, for an identity that may read the wrapping key.

        The encrypted file of the home makes up a wrapping key at the first use; a server has the one that somebody
        stored (``dedp secret put keys/columns --random``). The ring is in the home, so that engines have to share it.

        Args:
            identity: name of the asset, the job or the person.

        Raises:
            ConfigError: if there is no wrapping key, or a damaged ring.
            NotReady: if the store of secrets does not answer.
        """
        # Not from memory: another process may have wrapped the ring by a newer version.
        pointers, file = SecretPointers(_store_with(WRAPPING), identity, [WRAPPING]), settings().home / _RING
        current = read_secret(pointers, pointer=WRAPPING)
        older = KeyRing.opened(file, current).wrapped_by() - {current.version}
        earlier = [read_secret(pointers, pointer=WRAPPING, version=int(version)) for version in sorted(older)]
        return KeyRing.opened(file, current, *earlier)

    def token_vault(self, identity: str) -> TokenVault:
        """Return the vault of tokens in the home, for an identity that may read the vault's key.

        The values behind tokens are for the identities in ``DEDP_VAULT_READERS`` alone, and each request is logged. The
        key is made as the wrapping key is; a vault opens by the key that it was made with.

        Args:
            identity: name of the asset, the job or the person.

        Raises:
            ConfigError: if there is no key, or another one than the vault's.
            NotReady: if the store of secrets does not answer, or the vault's file cannot be used.
        """
        found = read_secret(SecretPointers(_store_with(TOKENS), identity, [TOKENS]), pointer=TOKENS)
        file = settings().home / _VAULT
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            key = MaskingKey(TOKENS, bytes.fromhex(found.secret.reveal() if found.secret else ""))
        except ValueError:
            raise ConfigError(
                f"the key of the token vault must be {2 * KEY_BYTES} hexadecimal digits: `dedp secret put {TOKENS} "
                "--random` makes one"
            ) from None
        return TokenVault(file, key, settings().vault_readers)


def _store_with(path: str) -> SealedFile | VaultServer:
    """Return the store of secrets; the encrypted file of the home gets a random key under the name."""
    store = store_of(settings())
    if isinstance(store, SealedFile) and path not in store.paths():
        store.make(path, {VALUE: token_hex(KEY_BYTES)})
    return store


@cache
def _pointers(store: SealedFile | VaultServer, identity: str, granted: tuple[str, ...]) -> SecretPointers:
    return SecretPointers(store, identity, granted)


@cache
def _server(url: str, login_file: Path, role: str) -> VaultServer:
    """Return a server, with one token for all requests of this process."""
    return VaultServer(url, login_file, role=role)


def store_of(chosen: Settings, *, as_owner: bool = False) -> SealedFile | VaultServer:
    """Return the store of secrets of the settings.

    Args:
        chosen: the settings.
        as_owner: whether secrets of the laptop's own server are to be changed.

    Raises:
        ConfigError: for a server without a file of a login.
        NotReady: if the laptop's own server is asked for and does not run.
    """
    if not chosen.secret_store:
        return SealedFile(chosen.home / _SEALED)
    if chosen.secret_store != OWN:
        return _server(chosen.secret_store, _login_of(chosen), chosen.secret_role)
    folder = chosen.home / FOLDER
    if not (url := announced(folder)):
        raise NotReady(f"DEDP_SECRETS is {OWN}, and no server of secrets runs: start it by `make up SECRETS={OWN}`")
    if chosen.secret_login or as_owner:
        return _server(url, chosen.secret_login or folder / ADMINISTRATOR, chosen.secret_role)
    return _server(url, folder / LOGIN, secret_in(folder / ROLE, of="the id of the role of runs"))


def lacking(chosen: Settings) -> str:
    """Return the reason why the configured store of secrets is unusable now; empty for a usable store."""
    try:
        store = store_of(chosen)
        if isinstance(store, VaultServer):
            store.ask("GET", "sys/health")
    except (ConfigError, NotReady) as error:
        return str(error)
    return ""


def _login_of(chosen: Settings) -> Path:
    if chosen.secret_login is None:
        raise ConfigError(
            "DEDP_SECRETS_LOGIN must be a file (0600) with the login for the server of DEDP_SECRETS, not unset"
        )
    return chosen.secret_login
