"""Numbers of arguments that Spark's SQL functions take, judged by the words of a statement alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["wrong_arity"]

_STATED: dict[tuple[int, int | None], str] = {
    (0, 0): """
        cume_dist curdate current_catalog current_database current_schema current_timezone
        monotonically_increasing_id now row_number version
    """,
    (0, 1): """
        rand randn random uuid
    """,
    (0, 2): """
        unix_timestamp
    """,
    (1, 1): """
        abs acos acosh array_agg array_compact array_distinct array_max array_min array_size ascii asin asinh atan
        atanh avg base64 bin bit_and bit_count bit_length bit_or bit_xor bool_and bool_or cardinality cbrt
        char_length character_length chr collect_list collect_set cos cosh cot count_if crc32 csc
        date_from_unix_date day dayname dayofmonth dayofweek dayofyear degrees every exp expm1 factorial flatten hex
        initcap is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull json_array_length
        json_object_keys kurtosis last_day lcase len length ln log10 log1p log2 lower map_entries map_from_entries
        map_keys map_values max md5 mean measure median min month monthname negative nullifzero octet_length
        parse_json positive quarter quote radians raise_error reverse rint sec sha sha1 sign signum sin sinh size
        skewness soundex space sqrt std stddev stddev_pop stddev_samp sum tan tanh timestamp_micros timestamp_millis
        timestamp_seconds to_variant_object try_avg try_parse_json try_sum try_url_decode try_validate_utf8 typeof
        ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds upper url_decode url_encode
        validate_utf8 var_pop var_samp variance vector_avg vector_sum weekday weekofyear window_time year zeroifnull
    """,
    (1, None): """
        coalesce concat_ws count format_string hash printf xxhash64
    """,
    (1, 2): """
        any_value approx_count_distinct array_sort assert_true bround btrim ceil ceiling first first_value floor
        from_unixtime last last_value log ltrim randstr round rtrim shuffle sort_array to_binary to_csv to_date
        to_json to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp try_to_binary try_to_date
        try_to_time try_to_timestamp vector_norm vector_normalize
    """,
    (1, 3): """
        sentences str_to_map
    """,
    (2, 2): """
        add_months array_append array_contains array_except array_intersect array_position array_prepend
        array_remove array_repeat array_union arrays_overlap atan2 bit_get contains corr covar_pop covar_samp
        date_format date_trunc element_at encode endswith equal_null find_in_set forall format_number
        from_utc_timestamp get get_json_object getbit hypot ifnull instr left map_contains_key map_filter
        map_from_arrays nanvl next_day nullif nvl pmod pow power regexp_count regexp_substr repeat right sha2
        shiftleft shiftright shiftrightunsigned startswith to_char to_number to_utc_timestamp to_varchar transform
        transform_keys transform_values trunc try_add try_divide try_element_at try_mod try_multiply try_subtract
        try_to_number vector_cosine_similarity vector_inner_product vector_l2_distance
    """,
    (2, None): """
        decode elt greatest least
    """,
    (2, 3): """
        approx_percentile array_join convert_timezone from_csv from_json levenshtein locate lpad max_by min_by
        months_between parse_url percentile percentile_approx regexp_extract regexp_extract_all regexp_instr replace
        rpad sequence split substr substring try_parse_url uniform
    """,
    (3, 3): """
        array_insert conv if map_zip_with nvl2 slice split_part substring_index translate zip_with
    """,
    (3, 4): """
        aggregate reduce regexp_replace
    """,
    (4, 4): """
        width_bucket
    """,
}
"""Least and greatest number of arguments -> functions, counted by Spark's analyser.

Left out are names that are types or words of SQL as well, and functions with words between their arguments.
"""
_ARITIES = {name: each for each, names in _STATED.items() for name in names.split()}
_NO_CALL = ("R_PAREN", "VAR", "IDENTIFIER", "ALIAS", "DOT", "WITH")
"""Kinds of words before an alias with a list of columns, a field, or another thing than a function."""
_SPECIAL = ("FROM", "FOR", "FARROW", "DCOLON", "ALIAS", "USING", "SELECT")
"""Kinds of words between arguments that no comma parts, and before a query."""


def wrong_arity(tokens: Sequence[Any]) -> str:
    """Return the fault of a function with too few or too many arguments; empty without one.

    Args:
        tokens: the words of a statement, by sqlglot.
    """
    for at, token in enumerate(tokens[1:-1], 1):
        bounds = _ARITIES.get(token.text.lower())
        is_call = tokens[at + 1].token_type.name == "L_PAREN" and tokens[at - 1].token_type.name not in _NO_CALL
        if bounds is None or not is_call or (count := _arguments(tokens[at + 2 :])) is None:
            continue
        least, most = bounds
        if count < least or (most is not None and count > most):
            taken = f"{least} or more" if most is None else f"{least}" if most == least else f"{least} to {most}"
            return f"calls {token.text} with {count} argument{'' if count == 1 else 's'}, and it takes {taken}"
    return ""


def _arguments(tokens: Sequence[Any]) -> int | None:
    """Return the number of arguments up to the closing parenthesis.

    ``None`` stands for arguments with words of SQL between, and for a call that is not closed.
    """
    depth, commas = 0, 0
    for at, token in enumerate(tokens):
        kind = token.token_type.name
        if kind == "R_PAREN" and depth == 0:
            return commas + 1 if at else 0
        if kind in _SPECIAL and depth == 0:
            return None
        depth += (kind in ("L_PAREN", "L_BRACKET")) - (kind in ("R_PAREN", "R_BRACKET"))
        commas += kind == "COMMA" and depth == 0
    return None
