"""What a refusal tells people: the rule with its figures, and the command that helps, if there is one."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from dedp_assets.graph.outcomes.failures import failure, sentence, unexpected
from dedp_assets.patterns.core.errors import AuditFailed, NotReady, TransactionReused
from dedp_assets.patterns.core.results import BY_NAME, Finding, LetterReason

FIXED = Finding("constraints_hold", passed=False)
SHARE = Finding("dead_letters_are_few", passed=False, approvable=True)
CROSSED = Finding("no_personal_value_crossed", passed=False, approvable=BY_NAME)
WARNED = Finding("volume_is_usual", passed=False, severity="warn")


@pytest.mark.parametrize(
    ("findings", "remedy"),
    [
        ([SHARE, WARNED], 'If it is right all the same: dedp approve silver/x 2026-01-05 --by NAME --because "WHY"'),
        (
            [SHARE, CROSSED],
            'If it is right all the same: dedp approve silver/x 2026-01-05 --by NAME --because "WHY" '
            "--audit no_personal_value_crossed",
        ),
        ([SHARE, FIXED], "No approval overrules constraints_hold: it waits for corrected data or a fix of the code"),
    ],
)
def test_a_refusal_says_whether_a_person_may_approve_it_and_how(findings, remedy):
    """An audit that asks for its name gets it in the command; one that nobody overrules is named."""
    error = AuditFailed("silver/x day=2026-01-05: nothing published. too many", findings=findings)
    assert (
        sentence("silver/x", "2026-01-05", error) == f"silver/x day=2026-01-05: nothing published. too many. {remedy}"
    )


def test_a_refusal_for_dead_letters_says_how_to_see_and_to_mend_them():
    """Before the approval, which mends nothing; the failure has them as a table."""
    letters = (LetterReason("at is not a TIMESTAMP", 3, "such as {at: 'x'}"),)
    error = AuditFailed("silver/x day=2026-01-05: nothing published", findings=[SHARE], letters=letters)
    told = sentence("silver/x", "2026-01-05", error)
    assert (
        ". Mend the source or the declaration (dedp letters shows its records). If it is right all the same: " in told
    )
    shown = failure({"2026-01-05": error}, {"2026-01-05": told}).metadata["2026-01-05 dead letters"]
    assert [record.data for record in shown.records] == [asdict(letters[0])]


def test_other_errors_say_themselves_what_to_do():
    """The table and the day are put before a text that does not name them."""
    assert sentence("bronze/x", "2026-01-05", NotReady("no marker")) == "bronze/x 2026-01-05: no marker"
    reused = sentence("bronze/x", "", TransactionReused("other rows"))
    assert reused.endswith("To publish them, run it with force: dedp run bronze/x --force")


def test_an_error_that_nobody_foresaw_has_a_sentence_before_it():
    """No text of an engine reaches a person bare: table, day and what becomes of it come first, the stack after."""
    told = unexpected("silver/x", "2026-01-05", RuntimeError("[SOME_CLASS] An engine said\n\tat org.apache.Something"))
    assert told.description.startswith(
        "silver/x 2026-01-05 was not computed and nothing of it is published: RuntimeError in the engine or in code "
        "([SOME_CLASS] An engine said). It is tried again"
    )
    assert "at org.apache.Something" in told.metadata["stack"].value
