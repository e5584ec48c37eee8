"""Encrypted values: layout, binding to place and person, and the loops over batches.

A value is ``version | key id (8) | nonce (12) | ciphertext | tag (16)``, by AES-256-GCM; behind the head as Spark's own
``aes_decrypt`` takes it. By AES-SIV, without a nonce, it is ``version | key id (8) | tag (16) | ciphertext``.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.security._key_ring import ID_BYTES, DataKey, KeyRing, KeyState, UnusableKey

__all__ = ["Sealing", "joined"]

_RANDOM, _EQUAL = b"\x01", b"\x02"
_HEAD, _NONCE_BYTES = 1 + ID_BYTES, 12
_MOST_KEPT = 100_000
"""Keys that a task keeps in memory."""

_Tools = tuple[bytes, Callable[..., bytes], Callable[..., bytes], bytes]
"""Format of encrypted values: header with key id, encryption, decryption, associated data."""


@dataclass(slots=True)
class Sealing:
    """Encryption and decryption of one column, within a task.

    Attributes:
        place: table and column, for errors.
        bound: what all values of the column are bound to.
        purpose: name of the keys in the ring.
        deterministic: whether equal values are equal when encrypted.
        nullify: whether a value of a deleted key is NULL.
        keys: id -> key; of persons, filled while batches come.
        current: the key of new values, where persons have none.
        ring: keys of persons; ``None`` where they have none.
    """

    place: str
    bound: bytes
    purpose: str
    deterministic: bool
    nullify: bool
    keys: dict[bytes, KeyState] = field(repr=False)
    current: KeyState | None = field(default=None, repr=False)
    ring: KeyRing | None = field(default=None, repr=False)
    _made: dict[bytes, _Tools] = field(default_factory=dict, repr=False)

    def encrypt(self, values: pa.Array, rows: pa.Array, persons: pa.Array | None = None) -> pa.Array:
        """Encrypt a batch: a struct of value and fault for each."""
        who = [None] * len(values) if persons is None else persons.to_pylist()
        current, tools = self._current_of({*who}), dict[str | None, _Tools]()
        nonces = os.urandom(_NONCE_BYTES * len(values))
        made, faults = list[bytes | None](), dict[int, str | None]()
        # The loop of each value: calls within it are half of the time.
        for number, (value, row, person) in enumerate(zip(values.to_pylist(), _each(rows, values), who, strict=True)):
            if value is None:
                made.append(None)
                continue
            try:
                head, encrypt, _, bound = tools.get(person) or tools.setdefault(person, self._tools(current[person]))
            except UnusableKey as fault:
                made.append(None)
                faults[number] = self._fault(fault)
                continue
            if self.deterministic:
                made.append(head + encrypt(value, [bound]))
            else:
                nonce = nonces[number * _NONCE_BYTES : (number + 1) * _NONCE_BYTES]
                made.append(head + nonce + encrypt(nonce, value, bound + row))
        return _outcome(made, faults)

    def decrypt(self, values: pa.Array, rows: pa.Array) -> pa.Array:
        """Decrypt a batch: a struct of value and fault for each."""
        wrong, tools = optional("cryptography.exceptions").InvalidTag, dict[bytes, _Tools]()
        held, first = values.to_pylist(), _HEAD + _NONCE_BYTES
        if self.ring:
            self._find({value[1:_HEAD] for value in held if value})
        made, faults = list[bytes | None](), dict[int, str | None]()
        for number, (value, row) in enumerate(zip(held, _each(rows, values), strict=True)):
            found = None
            if value is not None:
                head = value[:_HEAD]
                try:
                    _, _, decrypt, bound = tools.get(head) or tools.setdefault(head, self._tools(self._named_in(head)))
                    if self.deterministic:
                        found = decrypt(value[_HEAD:], [bound])
                    else:
                        found = decrypt(value[_HEAD:first], value[first:], bound + row)
                except UnusableKey as fault:
                    faults[number] = self._fault(fault)
                except (wrong, ValueError):
                    faults[number] = (
                        f"{self.place}: key {head[1:].hex()} does not open a value, which was changed, or is of "
                        "another row, column or table: restore the value, or name the binding by which it was encrypted"
                    )
            made.append(found)
        return _outcome(made, faults)

    def _fault(self, fault: UnusableKey) -> str | None:
        return None if fault.is_deleted and self.nullify else f"{self.place}: {fault}"

    def _tools(self, state: KeyState) -> _Tools:
        """Return head, encryption, decryption and bound bytes of a key, made once."""
        if isinstance(state, UnusableKey):
            raise state
        if len(self._made) > _MOST_KEPT:
            self._made.clear()
        if state.id not in self._made:
            kinds = optional("cryptography.hazmat.primitives.ciphers.aead")
            # Another key for another mode, and as long as SIV takes for AES-256.
            equal = hmac.digest(state.value, b"dedp siv 1", "sha512") if self.deterministic else b""
            cipher = kinds.AESSIV(equal) if equal else kinds.AESGCM(state.value)
            head = (_EQUAL if equal else _RANDOM) + state.id
            self._made[state.id] = (head, cipher.encrypt, cipher.decrypt, self.bound + state.id)
        return self._made[state.id]

    def _current_of(self, persons: Collection[str | None]) -> dict[str | None, KeyState]:
        nobody = UnusableKey("a value without a person has no key: fill the column of the subject")
        if self.ring is None:
            return dict.fromkeys(persons, self.current or nobody)
        named = [person for person in persons if person is not None]
        return {**self.ring.current_of(self.purpose, named), None: nobody}

    def _find(self, ids: set[bytes]) -> None:
        if len(self.keys) > _MOST_KEPT:
            self.keys.clear()
        if self.ring and (new := [key for key in ids if key not in self.keys and len(key) == ID_BYTES]):
            self.keys |= self.ring.found(new)

    def _named_in(self, head: bytes) -> KeyState:
        kind, name = _EQUAL if self.deterministic else _RANDOM, head[1:]
        if head[:1] != kind or len(name) < ID_BYTES:
            raise UnusableKey("a value is not encrypted in this way: name the binding by which it was encrypted")
        if name not in self.keys:
            raise UnusableKey(
                f"key {name.hex()} is none of {self.purpose}: name the purpose of the value, or open the right ring"
            )
        key = self.keys[name]
        if isinstance(key, DataKey) and key.purpose != self.purpose:
            raise UnusableKey(f"key {name.hex()} is of {key.purpose}, not of {self.purpose}: name the right purpose")
        return key


def joined(texts: Sequence[str]) -> bytes:
    """Join texts with their lengths, so that no two lists are written the same."""
    return b"".join(len(text.encode()).to_bytes(4, "big") + text.encode() for text in texts)


def _each(rows: pa.Array | None, values: pa.Array) -> list[bytes]:
    """Return the key of each row; of rows without one, nothing."""
    return [b""] * len(values) if rows is None else rows.to_pylist()


def _outcome(made: Sequence[bytes | None], faults: Mapping[int, str | None]) -> pa.Array:
    """Return values and faults as structs."""
    fault = pa.array([faults.get(number) for number in range(len(made))], pa.string())
    return pa.StructArray.from_arrays([pa.array(made, pa.binary()), fault], ["value", "fault"])
