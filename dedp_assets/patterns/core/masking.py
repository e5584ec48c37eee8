"""Masking: keyed pseudonyms of column values, masks that keep a format, and keyed random draws.

A key is closed over by a function of Python and is no literal of SQL: Spark writes the literals of plans into its logs.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import LongType, StringType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types

__all__ = [
    "Mask", "MaskingKey", "by_batch", "draw", "drawn", "keyed_digest", "keyed_digests", "normalised", "padded",
    "pseudonym",
]  # fmt: skip

_BETWEEN = "\x1f"
_PLACES = {"9": "[0-9]", "A": "[A-Za-z]"}
"""Sign of a shape -> pattern of what may stand there."""
_BLOCK_BYTES = 64
"""Of SHA-256."""


@dataclass(frozen=True, slots=True)
class MaskingKey:
    """The key of pseudonyms; the secret stays out of query plans, logs, ledger and tables, unlike ``id``.

    Attributes:
        id: name and version of the key.
        secret: at least 32 random bytes. Whoever has them can try out values, so they stay where the originals are.

    Raises:
        ConfigError: without an id, or with a secret that could be guessed.
    """

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not self.id or len(self.secret) < 32:
            raise ConfigError("a masking key needs an id and a secret of at least 32 random bytes")

    def of(self, purpose: str) -> MaskingKey:
        """Derive the key of a purpose; pseudonyms of one purpose say nothing about the pseudonyms of another.

        Args:
            purpose: what for, such as the name of an export.

        Example:
            >>> key = MaskingKey("home", b"32 random bytes, which these are not")
            >>> key.of("research").secret == key.of("partners").secret
            False
        """
        return replace(self, secret=hmac.digest(self.secret, f"purpose|{purpose}".encode(), "sha256"))


def normalised(text: str) -> str:
    r"""Return the common form of texts that mean the same: NFKC, without blanks around, in lower case.

    Example:
        >>> normalised(" Ada@Example.ORG\n")
        'ada@example.org'
    """
    folded = unicodedata.normalize("NFKC", text).strip().lower()
    return unicodedata.normalize("NFKC", folded).strip()


def keyed_digest(key: MaskingKey, of: str, value: str) -> str:
    """Return the HMAC-SHA-256 of a value in 64 hex digits.

    Args:
        key: the key.
        of: what the value is, such as ``email``: an equal text that is something else has another digest.
        value: the value.
    """
    return keyed_digests(key, of)(value)


def keyed_digests(key: MaskingKey, of: str) -> Callable[[str], str]:
    """Return the function of :func:`keyed_digest` from a value to a digest, for many values."""
    return _digests(key, f"{of}{_BETWEEN}")


def _digests(key: MaskingKey, before: str) -> Callable[[str], str]:
    """Return a function from a value to the HMAC-SHA-256 of ``before`` and the value, in 64 hex digits.

    HMAC (RFC 2104) hashes the padded key twice. That is done here once, in place of once for each value, which takes
    nearly three times as long.
    """
    inner, outer = map(hashlib.sha256, padded(key, before))

    def digest(value: str) -> str:
        within, around = inner.copy(), outer.copy()
        within.update(value.encode())
        around.update(within.digest())
        return around.hexdigest()

    return digest


def padded(key: MaskingKey, before: str) -> tuple[bytes, bytes]:
    """Return the bytes that SHA-256 reads before a value, and before the digest, for an HMAC.

    Args:
        key: the key.
        before: text in front of each value.
    """
    secret = key.secret if len(key.secret) <= _BLOCK_BYTES else hashlib.sha256(key.secret).digest()
    inner, outer = (bytes(byte ^ pad for byte in secret.ljust(_BLOCK_BYTES, b"\0")) for pad in (0x36, 0x5C))
    return inner + before.encode(), outer


def by_batch(function: Callable[..., Iterable[str | None]], *columns: Column) -> Column:
    """Return the texts that ``function`` makes of the texts in columns, a batch of rows at a time; lazy.

    Args:
        function: takes a list for each column, NULL as ``None``, and returns as many texts. What it holds is not in
            the plan; it is the same function wherever, and whenever, a batch is computed.
        columns: the columns, each cast to a text.
    """

    def texts(*batch: pa.Array) -> pa.Array:
        return pa.array(list(function(*[values.to_pylist() for values in batch])), pa.string())

    texts.__name__ = function.__name__  # as the plan shows it
    # Spark infers the kind of function from the hints and warns if it is named, which its own stubs ask for.
    made = arrow_udf(texts, StringType())  # type: ignore[call-overload]
    column: Column = made(*[each.cast("string") for each in columns])
    return column


def pseudonym(column: str, key: MaskingKey, *, of: str = "", exact: bool = True) -> Column:
    """Replace text by HMAC-SHA-256 in 64 hex digits; equal values have equal digits, NULL stays NULL.

    Without the key no list of likely values helps. A plain hash of an IP address or a name is found by trying them all.

    Args:
        column: the column.
        key: the key; that of a purpose (:meth:`MaskingKey.of`) makes pseudonyms that those of another do not join.
        of: what the values are, as in :func:`keyed_digest`.
        exact: whether texts that differ by case, by blanks around or by form alone are different values.
    """

    def pseudonyms(values: list[str | None]) -> list[str | None]:
        digest = _digests(key, f"{of}{_BETWEEN}" if of else "")
        made = [v if v is None or exact else normalised(v) for v in values]
        return [None if v is None else digest(v) for v in made]

    return by_batch(pseudonyms, F.col(identifier(column)))


@dataclass(frozen=True, slots=True)
class Mask:
    """All but the last signs of a text hidden, in the text's format.

    A text of another shape is hidden whole: what does not look like one of these values may be anything.

    Attributes:
        shape: the format: ``9`` is a digit, ``A`` a letter, anything else itself, as in ``999-99-9999``.
        keep: number of digits and letters to show, from the end.
        sign: what stands for a hidden one.

    Raises:
        ConfigError: for a shape without a digit or a letter, for a mask that hides none, or a sign of several signs.
    """

    shape: str
    keep: int = 4
    sign: str = "X"

    def __post_init__(self) -> None:
        require_types(self)
        places = sum(sign in _PLACES for sign in self.shape)
        if not places:
            raise ConfigError(f"shape must have a 9 for each digit or an A for each letter, not be {self.shape!r}")
        if not 0 <= self.keep < places:
            raise ConfigError(f"keep must be from 0 to {places - 1} for {self.shape}, not {self.keep}: hide something")
        if len(self.sign) != 1:
            raise ConfigError(f"sign must be one sign, as 'X', not {self.sign!r}")

    @property
    def hidden(self) -> str:
        """The text that stands for a value of another shape."""
        return "".join(self.sign if sign in _PLACES else sign for sign in self.shape)

    @property
    def shown_from(self) -> int:
        """Place of the first sign of a value that is shown, from 0."""
        places = [place for place, sign in enumerate(self.shape) if sign in _PLACES]
        return places[len(places) - self.keep] if self.keep else len(self.shape)

    def pattern(self, code_point: str) -> str:
        """Return a regular expression of the format, without anchors.

        Args:
            code_point: format of a code point in the dialect.
        """
        return "".join(_PLACES.get(sign, code_point.format(ord(sign))) for sign in self.shape)

    def of(self, value: Column) -> Column:
        """Return the masked texts; NULL stays NULL."""
        masked = F.concat(
            F.lit(self.hidden[: self.shown_from]), F.substring(value, self.shown_from + 1, len(self.shape))
        )
        # Java's $ also matches before a line feed at the end.
        like = self.pattern(r"\x{{{:x}}}")
        return F.when(value.rlike(rf"\A{like}\z"), masked).when(value.isNotNull(), F.lit(self.hidden))


def draw(key: MaskingKey, of: str, seed: str) -> int:
    """Draw a whole number from 0 to 2**62 - 1: the same for a seed in every run, task and partitioning.

    Whoever has no key cannot tell the numbers from random ones, also with the seeds.

    Args:
        key: the key.
        of: what is drawn: for something else there are other numbers.
        seed: a text, such as the key of a row.
    """
    return _number(keyed_digest(key, of, seed))


def drawn(seed: Column, key: MaskingKey, *, of: str) -> Column:
    """Return the number of :func:`draw` for each seed, NULL for NULL; lazy."""

    def draws(seeds: pa.Array) -> pa.Array:
        digest = _digests(key, f"{of}{_BETWEEN}")
        return pa.array([None if s is None else _number(digest(s)) for s in seeds.to_pylist()], pa.int64())

    number: Column = arrow_udf(draws, LongType())(seed.cast("string"))  # type: ignore[call-overload]
    return number


def _number(digest: str) -> int:
    return int(digest[:16], 16) >> 2
