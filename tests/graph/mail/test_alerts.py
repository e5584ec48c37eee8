"""Alerts: what one may say, and what is masked in it."""

from __future__ import annotations

import pytest

from dedp_assets.graph.mail.alerts import without_secrets
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.core.secret import masked


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"severity": "error"}, "Trouble.severity must be info, warning or critical, not 'error'"),
        ({"table": ""}, "a trouble must have a kind and a table, not an empty text"),
        ({"kind": ""}, "a trouble must have a kind and a table, not an empty text"),
        ({"partition": 5}, "Trouble.partition must be a text, not 5"),
        ({"source": "x"}, "Trouble.source must be code or platform, not 'x'"),
    ],
)
def test_an_alert_that_cannot_be_is_refused_where_it_is_made(wrong, text):
    """By the option's name, in the code that raises it and not in a sensor later."""
    with pytest.raises(ConfigError, match=text):
        Trouble(**{"kind": "stale", "table": "gold/visits", **wrong})


def test_the_same_trouble_has_one_key_whatever_its_figure():
    """Another partition, another name or another source is another trouble."""
    first = Trouble(kind="stale", table="gold/visits", figure="1 h")
    assert first.key == Trouble(kind="stale", table="gold/visits", figure="2 h", severity="critical").key
    others = [{"partition": "2026-01-05"}, {"kind": "refused"}, {"table": "gold/x"}, {"source": "platform"}]
    assert len({Trouble(**{"kind": "stale", "table": "gold/visits", **each}).key for each in [{}, *others]}) == 5


def test_texts_are_one_line_without_secrets():
    """Of limited length: a server's error may be pages long."""
    stated = Trouble(kind="a", table="b/c", reason="token-1\n  is\twrong " + "x" * 9000)
    alert = without_secrets(stated, ["token-1", "b"])
    assert alert.reason.startswith("*** is wrong xxx")
    assert len(alert.reason) == 2000
    assert alert.table == "b/c", "a secret of one character would mask words"


def test_a_secret_within_another_is_masked_whole():
    """The longer one first."""
    assert masked("abcdef-123456 abcdef", ["abcdef", "abcdef-123456"]) == "*** ***"
    assert masked("ftp://u:p@h/x, //h?a=@b, mail ada@example.com") == "ftp://***@h/x, //h?a=***, mail ada@example.com"
