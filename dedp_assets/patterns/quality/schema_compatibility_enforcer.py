"""Schema Compatibility Enforcer: a schema change passes only if the protected readers can still read.

Problem: stateful pipelines depend on fields; a producer removes one that it thinks is obsolete, and jobs fail at once.
Solution: judge each new schema against the last one, or all, by the rules of its format: new readers with old data
    (backward), old readers with new data (forward), both (full). A table keeps its columns, and adds them on request.
Consequences: evolution is rigid: a rename takes three steps (add, fill both, remove). A pair is judged once per process.
Choose instead: Schema Migrator, if readers have to move; Constraints Enforcer, if values and not types are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding

__all__ = ["judge_schema"]


@typed
def judge_schema(
    new: str,
    history: Sequence[str],
    *,
    mode: str = "BACKWARD",
    dialect: Literal["AVRO", "JSON", "TABLE"] = "AVRO",
    policy: Literal["STRICT", "LENIENT"] = "STRICT",
    logical_types: bool = False,
) -> Finding:
    """Judge whether a schema may follow earlier schemas, with all incompatibilities.

    Args:
        new: text of the schema.
        history: texts of the earlier schemas, oldest first; a mode that is not transitive looks at the last one only.
        mode: ``NONE``, ``BACKWARD`` (new readers read old data), ``FORWARD`` (old readers read new data) or ``FULL``
            (both), in any case; with ``_TRANSITIVE`` against all of ``history``.
        dialect: language of the texts: an Avro schema, a JSON Schema, or the schema of a Spark table in JSON
            (``rows.schema.json()``).
        policy: for JSON Schema: ``LENIENT`` allows properties to come to an open model and to leave a closed one.
        logical_types: for Avro: whether another decimal scale or unit of time is refused, which readers that go by
            their own logical type read wrong by powers of ten.

    Returns:
        ``new_schema_is_compatible``; its note says every incompatibility in a sentence. The figure
        ``incompatibilities`` lists each: ``direction`` (``BACKWARD`` or ``FORWARD``), ``version`` (place in
        ``history``, from 1), ``path`` of the field, ``rule`` and ``message``.

    Raises:
        ContractError: for a text that is no valid schema of the dialect; ``new`` or the place in ``history`` is named.
        ConfigError: for an unknown mode.

    Example:
        >>> v1 = '{"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]}'
        >>> v2 = v1.replace('"string"', '"int"')
        >>> judge_schema(v2, [v1]).note
        'BACKWARD, version 1: page: string cannot be read as int (type_changed)'
    """
    raise ContractError(f"{dialect} {mode} {policy} {logical_types}: {len(history)} {len(new)}: not there yet")
