"""Semantics of the registry, held against a model of plain dictionaries."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dedp_assets.local.registry.schemas import LATEST, RegistryError, content_of, inlined
from dedp_assets.local.registry.store import Memory
from dedp_assets.local.registry.subjects import EVERYTHING, Subjects, qualified
from tests.local.registry.judging import judge, record

SUBJECTS = st.sampled_from(["s", "t"])
SCHEMAS = st.sampled_from([record("a"), record("a", "b="), record("a", "b"), record("b:string"), record("a:string")])
LEVELS = st.sampled_from(["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FULL", "FULL_TRANSITIVE"])


class Registry(RuleBasedStateMachine):
    """A registry, and what it should hold: subject -> number -> (schema, deleted), levels, and ids by schema."""

    def __init__(self):
        super().__init__()
        self.kept = Memory()
        self.held, self.ids, self.levels = {}, {}, {EVERYTHING: "BACKWARD"}

    @property
    def subjects(self):
        """The registry, read from the text that a file would hold."""
        self.kept = Memory.of(self.kept.as_text())
        return Subjects(self.kept, judge)

    def live(self, subject):
        """The schemas of a subject by number, without deleted ones."""
        return {n: text for n, (text, deleted) in self.held.get(subject, {}).items() if not deleted}

    def fits(self, text, subject):
        """Whether the judge lets a schema follow what is live."""
        level = self.levels.get(subject, self.levels[EVERYTHING])
        return judge(text, [*self.live(subject).values()], mode=level).passed

    def code(self, call, *arguments, **options):
        """The error code of a call.

        ``None`` for success.
        """
        try:
            call(*arguments, **options)
        except RegistryError as error:
            return error.code
        return None

    @rule(subject=SUBJECTS, text=SCHEMAS)
    def register(self, subject, text):
        """The same schema is there once; another one comes after all numbers that are taken, if it fits."""
        same = [n for n, each in self.live(subject).items() if each == text]
        expected = max(same) if same else max(self.held.get(subject, {}), default=0) + 1
        if not same and not self.fits(text, subject):
            assert self.code(self.subjects.register, subject, content_of({"schema": text})) == 40901
            return
        made = self.subjects.register(subject, content_of({"schema": text}))
        assert made.number == expected
        assert self.ids.setdefault(text, made.id) == made.id
        self.held.setdefault(subject, {})[expected] = (text, False)

    @rule(subject=SUBJECTS, text=SCHEMAS)
    def test(self, subject, text):
        """A test says what a registration would do to a schema that is not there."""
        assert (not self.subjects.test(subject, content_of({"schema": text}), None)) == self.fits(text, subject)

    @rule(subject=SUBJECTS, permanent=st.booleans())
    def delete(self, subject, permanent):
        """Softly what is live, for good only what was softly deleted whole."""
        held, live = self.held.get(subject, {}), self.live(subject)
        code = 40401 if not held else 40405 if permanent and live else 40404 if not permanent and not live else None
        expected = [*held] if permanent else [*live]
        if code:
            assert self.code(self.subjects.delete, subject, permanent=permanent) == code
            return
        assert self.subjects.delete(subject, permanent=permanent) == sorted(expected)
        if permanent:
            del self.held[subject]
        else:
            self.held[subject] = {n: (text, True) for n, (text, _) in held.items()}
            self.levels.pop(subject, None)

    @rule(subject=SUBJECTS, number=st.integers(1, 4), permanent=st.booleans())
    def delete_version(self, subject, number, permanent):
        """As for a subject, of one version."""
        held = self.held.get(subject, {})
        text, deleted = held.get(number, ("", None))
        wrong = {None: 40402, True: None if permanent else 40406, False: 40407 if permanent else None}
        expected = wrong[deleted] if held else 40401
        assert self.code(self.subjects.delete_version, subject, number, permanent=permanent) == expected
        if expected is None and permanent:
            del held[number]
            if not held:
                del self.held[subject]
        elif expected is None:
            held[number] = (text, True)

    @rule(scope=st.sampled_from(["s", "t", EVERYTHING]), level=LEVELS)
    def set_level(self, scope, level):
        """It counts from then on."""
        assert self.subjects.set_level(scope, level.lower()) == level
        self.levels[scope] = level

    @rule(subject=SUBJECTS)
    def forget_level(self, subject):
        """That of everything counts again."""
        assert self.code(self.subjects.forget_level, subject) == (None if subject in self.levels else 40408)
        self.levels.pop(subject, None)

    @invariant()
    def everything_is_found(self):
        """Each version by number, its schema by id, and nothing else."""
        subjects = self.subjects
        live = [subject for subject in self.held if self.live(subject)]
        assert subjects.names() == sorted(live)
        assert subjects.names(deleted=True) == sorted(self.held)
        assert subjects.names(deleted_only=True) == sorted({*self.held} - {*live})
        for subject, held in self.held.items():
            assert subjects.numbers(subject, deleted=True) == sorted(held)
            for number, (text, deleted) in held.items():
                found = subjects.version(subject, number, deleted=True)
                assert (found.id, found.deleted) == (self.ids[text], deleted)
                assert json.loads(subjects.content(found.id).schema) == json.loads(text)
            if subject in live:
                assert subjects.version(subject, LATEST).number == max(self.live(subject))
        used = {text for held in self.held.values() for text, _ in held.values()}
        for text, content_id in self.ids.items():
            assert self.code(subjects.content, content_id) == (None if text in used else 40403)


TestRegistry = Registry.TestCase


@pytest.mark.parametrize(
    ("given", "expected"),
    [("s", "s"), (":.:s", "s"), (":.staging:s", ":.staging:s"), (":s", ":s"), ("a:b", "a:b"), ("x" * 512, "x" * 512)],
)
def test_a_subject_of_the_default_context_has_one_name(given, expected):
    """Written with and without the context."""
    assert qualified(given) == expected


@pytest.mark.parametrize("given", ["", "__GLOBAL", "__EMPTY", "a\nb", "\x9f", ":.:", ":.staging:", "ä" * 257])
def test_what_is_no_subject_is_refused(given):
    """Empty, reserved, with control characters, or too long for an index."""
    with pytest.raises(RegistryError) as refused:
        qualified(given)
    assert refused.value.code == 42208


def refer(schema, *names):
    """A content that refers to version 1 of subjects of the same names."""
    named = [{"name": name, "subject": name, "version": 1} for name in names]
    return content_of({"schema": json.dumps(schema), "references": named})


def named(name, *fields):
    """A record with a field of each type."""
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(fields)]}


def test_a_referenced_type_is_defined_where_it_is_first_used_and_once():
    """Also if several schemas refer to it, inside of unions, arrays and maps, and by its name within a namespace."""
    held = {"shop.A": refer(named("shop.A", "int")), "shop.B": refer(named("shop.B", "shop.A"), "shop.A")}
    union = ["null", {"type": "array", "items": "B"}, {"type": "map", "values": "shop.A"}]
    whole = refer(named("shop.C", union, "A", "B", "C"), "shop.A", "shop.B")
    text = json.loads(inlined(whole, lambda each: held[each.name]))
    inner = named("shop.B", named("shop.A", "int"))
    first = ["null", {"type": "array", "items": inner}, {"type": "map", "values": "shop.A"}]
    assert text == named("shop.C", first, "A", "B", "C")


def test_a_referring_schema_is_judged_with_the_types_that_it_names():
    """A later version of a referenced schema changes what refers to it."""
    subjects = Subjects(Memory(), judge)
    subjects.register("A", content_of({"schema": record("a", name="A")}))
    subjects.set_level("A", "NONE")
    subjects.register("A", content_of({"schema": record("a:string", name="A")}))
    body = {"schema": json.dumps(named("O", "A")), "references": [{"name": "A", "subject": "A", "version": 1}]}
    subjects.register("O", content_of(body))
    latest = {**body, "references": [{"name": "A", "subject": "A", "version": -1}]}
    assert subjects.test("O", content_of(latest), None) == ["f0 has another type"]
    pinned = subjects.test("O", content_of(body), None)
    assert pinned == []
