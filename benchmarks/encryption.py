"""Encrypted and pseudonymised columns against columns in the clear: the write of a table, and the read of all values.

Ours: rows with an encrypted e-mail, under one key, or under a key for each of a thousand persons, as Parquet; or with
the e-mail hashed by a key, masked, or with a token of the vault in place of the person, a thousand of which it knows.
Theirs: the same rows in the clear.

Fair, because both come from the same cached rows in one session, and are written and read whole. Ciphertexts do not
compress: a line shows the bytes.

A line counts what a run asks the store of secrets for: 1,000 reads of a pointer against as many of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.connectors.secrets.sealed_file import SealedFile
from dedp_assets.patterns.connectors.secrets.store import StoredSecret
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.secret import Secret
from dedp_assets.patterns.security.encryptor import Encryption, KeyRing, decrypt, encrypt
from dedp_assets.patterns.security.pseudo_anonymizer import Hash, Mask, Token, TokenVault, pseudonymize
from dedp_assets.patterns.security.secrets_pointer import SecretPointers, read_secret

__all__ = ["run"]

_TABLE, _MANY, _PERSONS = "silver/users", 1_000_000, 1_000
_GOAL, _PSEUDONYMS = 1.3, {"hash": 1.1, "mask": 1.1, "token": None}
_READS = 1_000


def run(*, quick: bool) -> list[Row]:
    """Measure the write and the read of rows with an encrypted column, of pseudonyms, and the calls of a pointer."""
    session, home = SparkEngine().session, settings().home
    count = 1_000 if quick else _MANY
    email = "concat('user', lpad(id, 7, '0'), '@example.org') email"
    columns = ("id", f"concat('p', id % {_PERSONS}) person", email)
    padded = (*columns, "repeat(hex(xxhash64(id)), 4) padding")
    rows = session.range(count).selectExpr(*padded).localCheckpoint()
    wrapping = Access("benchmark", {}, "made up", version="1", secret=Secret("0f" * 32))
    keys = KeyRing.opened(home / "benchmark.ring", wrapping)
    by_row = Encryption(table=_TABLE, row_key=["id"])
    by_person = Encryption(table=_TABLE, row_key=["id"], subject="person")

    def written(name: str, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(home / name))

    def read(name: str, bound: Encryption | None) -> None:
        frame = session.read.parquet(str(home / name))
        shown = decrypt(frame, keys, columns={"email": "STRING"}, bound=bound) if bound else frame
        shown.write.format("noop").mode("overwrite").save()

    counters = Counters(session)
    writes = interleave(
        {
            "one key": lambda _: written("one", encrypt(rows, keys, columns=["email"], bound=by_row)),
            "keys of persons": lambda _: written("persons", encrypt(rows, keys, columns=["email"], bound=by_person)),
            "in the clear": lambda _: written("clear", rows),
        },
        rounds=5,
        warm_up=1,
        counters=counters,
    )
    reads = interleave(
        {
            "one key": lambda _: read("one", by_row),
            "keys of persons": lambda _: read("persons", by_person),
            "in the clear": lambda _: read("clear", None),
        },
        rounds=5,
        warm_up=1,
        counters=counters,
    )
    made = [
        compare(f"{count:,} rows, {what}, {side.name}", side, sides[-1])
        for what, sides in (("written", writes), ("read", reads))
        for side in sides[:-1]
    ]
    ratio = _bytes(home / "one") / _bytes(home / "clear")
    for each in made[:2]:
        middle = each.ratios["wall"][0]
        each.goal, each.met = f"<= {_GOAL}x the plain write", middle <= _GOAL
        each.reached = f"{middle:.2f}x, {ratio:.2f}x the bytes"
    return [*made, *_pseudonyms(rows, written, counters, home, count), _pointer(home)]


def _pseudonyms(
    rows: DataFrame, written: Callable[[str, DataFrame], None], counters: Counters, home: Path, count: int
) -> list[Row]:
    """Measure the write of rows with a hash, a mask, and a token in place of a value."""
    key = MaskingKey("benchmark", bytes(range(32)))
    vault = TokenVault(home / "benchmark.vault", key)

    def made(column: str, rule: Hash | Mask | Token) -> DataFrame:
        kept = [name for name in rows.columns if name != column]
        return pseudonymize(rows, key, vault, rules={column: rule}, keep=kept)

    sides = interleave(
        {
            "hash": lambda _: written("hash", made("email", Hash("email", purpose="benchmark"))),
            "mask": lambda _: written("mask", made("email", Mask("AAAA9999999@AAAAAAA.AAA", keep=10))),
            "token": lambda _: written("token", made("person", Token("person"))),
            "in the clear": lambda _: written("clear", rows),
        },
        rounds=5,
        warm_up=1,
        counters=counters,
    )
    return [
        compare(f"{count:,} rows, written, {side.name}", side, sides[-1], at_most=_PSEUDONYMS[side.name])
        for side in sides[:-1]
    ]


@dataclass
class _Counted:
    """A store of secrets that counts the reads."""

    store: SealedFile
    calls: int = 0

    @property
    def name(self) -> str:
        return self.store.name

    def read(self, path: str, version: int | None = None) -> StoredSecret:
        self.calls += 1
        return self.store.read(path, version)


def _pointer(home: Path) -> Row:
    """Count what the reads of a pointer ask the store for."""
    store = SealedFile(home / "benchmark_secrets")
    store.write("prod/db", {"password": "made up"})
    counted, direct = _Counted(store), _Counted(store)
    pointers = SecretPointers(counted, "benchmark", ["prod/db"])

    def asked(kept: _Counted, read: Callable[[], object]) -> dict[str, float]:
        before = kept.calls
        for _ in range(_READS):
            read()
        return {"calls": kept.calls - before}

    sides = interleave(
        {
            "pointer": lambda _: asked(counted, lambda: read_secret(pointers, pointer="prod/db#password")),
            "store": lambda _: asked(direct, lambda: direct.read("prod/db")),
        },
        rounds=3,
        warm_up=0,
    )
    found = compare(f"{_READS:,} reads in a run, a pointer", *sides)
    found.goal, found.met = "<= 1 call of the store", counted.calls <= 1
    found.reached = f"{counted.calls} call of {direct.calls:,}"
    return found


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))
