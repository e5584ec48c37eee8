"""Choice of patterns: four decision trees as plain data, and a function that follows answers.

The trees ask for latency, for tracked changes, for reliability, and for cost against speed. A number is held against
upper bounds in order, the first greater one counts; where a rule of thumb leaves a gap between two answers, the gap
belongs to the answer that still meets the need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["TREES", "Advice", "Recommendation", "Question", "choose"]


@dataclass(frozen=True, slots=True)
class Advice:
    """An answer to a question, with the advice that follows.

    Attributes:
        answer: the word of the answer, or for numbers the bound below which a number gives this answer.
        means: the answer in words, for readers.
        advice: a sentence: the way to work that the answer leads to.
        patterns: ids of the patterns, ``chapter.module``, the main one first.
        then: further questions, asked after this answer alone.
    """

    answer: str | float
    means: str
    advice: str
    patterns: tuple[str, ...] = ()
    then: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a tree.

    Attributes:
        name: key of the answer in the call of :func:`choose`.
        asks: the question, for readers.
        branches: the answers; those of numbers by rising bounds, the last one infinite.
    """

    name: str
    asks: str
    branches: tuple[Advice, ...]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The end of a way through a tree.

    Attributes:
        tree: name of the tree.
        because: question and answer, as words.
        advice: the way to work.
        patterns: ids of the patterns.
    """

    tree: str
    because: str
    advice: str
    patterns: tuple[str, ...]


# fmt: off
_HISTORY = Question("history", "Which states of a row do readers ask for?", (
    Advice("every change", "every change, for an audit",
           "Keep the changes themselves; the current rows follow from them.",
           ("ingestion.change_data_capture", "modeling.current_dimension")),
    Advice("latest", "the newest state alone", "Merge the changes by key.",
           ("idempotency.merger", "modeling.current_dimension")),
    Advice("versions", "the state at any time",
           "Keep a row for each state with its validity, and give facts the key of their time.",
           ("modeling.versioned_dimension", "modeling.dimensional_modeling")),
    Advice("previous", "the newest state and the one before", "Keep both in one row.",
           ("modeling.previous_value_dimension",)),
))

TREES: Mapping[str, tuple[Question, ...]] = {
    "latency": (
        Question("fresh_seconds", "How many seconds after an event do readers need its row?", (
            Advice(1, "less than a second",
                   "An engine that takes record by record; Spark's streams come in batches, and a commit to a "
                   "table takes longer. The state and the order of records are as here.",
                   ("value.stateful_sessionizer", "error_management.checkpointer", "value.fifo_orderer")),
            Advice(60, "less than a minute", "A stream in small batches, triggered every 10 to 30 seconds.",
                   ("error_management.checkpointer", "error_management.late_data_detector",
                    "value.dynamic_joiner", "error_management.windowed_deduplicator")),
            Advice(3_600, "less than an hour",
                   "Small batches of what landed since, asked for as soon as something changes.",
                   ("ingestion.incremental_loader", "idempotency.merger", "ingestion.readiness_marker")),
            Advice(inf, "hours or days",
                   "A schedule, partitions that a rerun replaces, and small files that are compacted.",
                   ("idempotency.data_overwrite", "storage.horizontal_partitioner", "ingestion.compactor")),
        )),
    ),
    "changes": (
        Question("changes", "How do changes of the source have to be followed?", (
            Advice("none", "not at all: its state is enough",
                   "Load all of it each time; keep a copy where a state has to stay.",
                   ("ingestion.full_loader", "storage.snapshot_export")),
            Advice("application", "the application that writes can be changed",
                   "The application writes an event in the transaction of the change, and nobody writes twice.",
                   ("ingestion.external_trigger", "idempotency.transactional_writer"), then=(_HISTORY,)),
            Advice("database", "only the database can be reached",
                   "Read the database's own log: every committed change in order, deletions included.",
                   ("ingestion.change_data_capture",), then=(_HISTORY,)),
            Advice("column", "a column grows with each change, and nothing is deleted",
                   "Read the rows above the last value, in bounded windows.",
                   ("ingestion.incremental_loader",), then=(_HISTORY,)),
        )),
    ),
    "reliability": (
        Question("duplicates", "May a row count twice?", (
            Advice("never", "no", "Position and rows are one commit, by a transaction that a retry recognises.",
                   ("error_management.checkpointer", "idempotency.transactional_writer", "idempotency.merger")),
            Advice("removed later", "yes, until a later step removes it",
                   "Deliver at least once, and make every write repeatable.",
                   ("error_management.windowed_deduplicator", "idempotency.data_overwrite",
                    "idempotency.keyed_idempotency")),
        )),
        Question("on_failure", "What becomes of a record that fails?", (
            Advice("retry", "it is tried again after a fix", "It waits with its reason, and the partition goes on.",
                   ("error_management.dead_letter", "error_management.dead_letter_replay")),
            Advice("stop", "everything stops: a batch without it is worth nothing",
                   "One broken rule refuses the batch, and readers keep what they have.",
                   ("quality.constraints_enforcer", "quality.audit_write_audit_publish")),
            Advice("person", "a person decides", "It waits with its reason until somebody approves or gives it up.",
                   ("error_management.dead_letter", "quality.audit_write_audit_publish")),
        )),
        Question("replay", "Must history be computed again, after a fix or for late records?", (
            Advice("no", "no", "A run replaces what it owns; nothing else is kept for it.",
                   ("idempotency.data_overwrite",)),
            Advice("yes", "yes", "Keep what came as it came, and compute again exactly the partitions that changed.",
                   ("error_management.dynamic_late_data_integrator", "error_management.static_late_data_integrator",
                    "storage.time_travel")),
        )),
    ),
    "cost": (
        Question("first", "What comes first?", (
            Advice("speed", "fast answers", "Compute ahead, and lay rows so that a question reads few files.",
                   ("storage.dataset_materializer", "storage.sorter", "storage.denormalizer")),
            Advice("cost", "a small bill",
                   "Let old partitions move to cheaper storage, and maintain only what pays for it.",
                   ("cost.storage_tiering", "storage.vacuum_optimize_policies", "storage.normalizer")),
        )),
        Question("queries_per_day", "How often is a question asked in a day?", (
            Advice(10, "less than 10 times", "Compute when asked, over partitions that a filter selects.",
                   ("storage.horizontal_partitioner", "storage.metadata_enhancer")),
            Advice(2_400, "up to 100 times an hour",
                   "Keep the results of frequent questions, and answer the others from the rows.",
                   ("storage.dataset_materializer", "storage.horizontal_partitioner")),
            Advice(inf, "more often", "A star or an aggregate of its own, refreshed with the rows.",
                   ("modeling.dimensional_mart", "storage.dataset_materializer")),
        )),
        Question("retention_days", "For how many days is a row kept?", (
            Advice(30, "less than 30 days", "One kind of storage is enough.",
                   ("governance.retention_policy",)),
            Advice(366, "up to a year", "Partitions move to cheaper tiers by age.",
                   ("cost.storage_tiering", "governance.retention_policy")),
            Advice(inf, "longer", "An archive as the last tier, and copies with checksums of what must stay as it is.",
                   ("cost.storage_tiering", "storage.snapshot_export", "governance.retention_policy")),
        )),
    ),
}
# fmt: on
"""Name of a tree -> the questions; data of this module alone, from which pages are written as well."""


def choose(answers: Mapping[str, str | float]) -> tuple[Recommendation, ...]:
    """Return the recommendations that follow from answers, in the order of the trees.

    Args:
        answers: name of a question -> a word of the question, or a number.

    Raises:
        ConfigError: if an answer is none of the question's, or no tree asks the question after the other answers.

    Example:
        >>> found = choose({"fresh_seconds": 20, "changes": "database", "history": "versions"})
        >>> for each in found:
        ...     print(each.tree, each.patterns[0])
        latency error_management.checkpointer
        changes ingestion.change_data_capture
        changes modeling.versioned_dimension
    """
    found = [(name, each) for name, questions in TREES.items() for each in _ends(name, questions, answers)]
    if unasked := answers.keys() - {question for _, (question, _) in found}:
        raise ConfigError(
            f"answers must be of questions that are asked after the other answers, not {', '.join(sorted(unasked))}: "
            "for example choose({'fresh_seconds': 20}); TREES has the questions"
        )
    return tuple(choice for _, (_, choice) in found)


def _ends(
    tree: str, questions: Sequence[Question], answers: Mapping[str, str | float]
) -> Iterator[tuple[str, Recommendation]]:
    """Yield the recommendations of a tree by the names of the answered questions."""
    for question in questions:
        if question.name in answers:
            branch = _branch(question, answers[question.name])
            yield question.name, Recommendation(tree, f"{question.asks} {branch.means}", branch.advice, branch.patterns)
            yield from _ends(tree, branch.then, answers)


def _branch(question: Question, answer: str | float) -> Advice:
    """Return the branch of an answer."""
    words = [each.answer for each in question.branches if isinstance(each.answer, str)]
    if words:
        fitting = [each for each in question.branches if each.answer == answer]
        allowed = f"one of {', '.join(words)}"
    else:
        number = -1.0 if isinstance(answer, str | bool) else answer
        fitting = [each for each in question.branches if number >= 0 and number < float(each.answer)]
        allowed = "a number from 0 on"
    if not fitting:
        raise ConfigError(f"{question.name} must be {allowed}, not {answer!r}")
    return fitting[0]
