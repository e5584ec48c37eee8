"""Fine-Grained Accessor for Resources."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.laptop.servers import s3
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.permissions import is_allowed, require_allowed, restricted_to
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.secret import Secret
from dedp_assets.patterns.delta import Ledger, LocalStore, Table, store_at, table_lock
from dedp_assets.patterns.delta.storage.locations import group_beside, partitions_beside
from dedp_assets.patterns.delta.storage.s3_store import S3Store
from dedp_assets.patterns.security._resource_policies import ACTIONS, identities_of
from dedp_assets.patterns.security.fine_grained_accessor_for_resources import (
    AccessPolicy,
    Statement,
    decide_access,
    grant_resources,
    lint_policies,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, refusal, write_log
from tests.object_store import forget_clients

A, B, C = "s3://lake/a", "s3://lake/b", "s3://lake/c"
JOB = "gold/b"
ACCESS = grant_resources([A], [B], identity=JOB)
RULES = (
    Statement(actions=["read", "list"], resources=[f"{A}/*"]),
    Statement(actions=[*ACTIONS], resources=[f"{B}/*"]),
    Statement(effect="deny", actions=["delete"], resources=[f"{B}/kept/*"]),
)


def of_identity(*rules, name="own", identity=JOB):
    return AccessPolicy(name=name, identity=identity, statements=rules)


def of_resource(resource, *rules, name="shared"):
    return AccessPolicy(name=name, resource=resource, statements=rules)


def allows(policies, action, resource, *, principal=JOB, tags=None):
    """Whether a decision allows what was asked for, and says the same everywhere."""
    access = decide_access(policies, principal=principal, action=action, resource=resource, tags=tags)
    assert bool(access.allowed) == (not access.denied)
    assert is_allowed(access, action, resource) == bool(access.allowed)
    return bool(access.allowed)


# --- 1: exact permissions from the declared sets ----------------------------------------------------------------------


@pytest.mark.parametrize("root", ["s3://lake", "s3a://lake/deep er/prefix", "/lake", "file:///lake"])
def test_the_declared_sets_are_the_permissions(root):
    """Reading A and writing B works; writing A, deleting in A and anything in C is denied, by both decisions."""
    access = grant_resources([f"{root}/a"], [f"{root}/b"], identity=JOB)
    wanted = {"a": {"read", "list"}, "b": {*ACTIONS}, "c": set(), "a-payroll": set(), "b.old": set()}
    for folder, may in wanted.items():
        for action in ACTIONS:
            for name in (folder, f"{folder}/file", f"{folder}/_delta_log/0.json", f"{folder}/day=ü 1/part"):
                place = f"{root}/{name}"
                assert is_allowed(access, action, place) == (action in may), (action, place)
                assert allows([AccessPolicy.of(access)], action, place) == (action in may), (action, place)


def test_a_writer_may_touch_its_locks_and_group_beside_the_table_and_nothing_else(tmp_path):
    """By the names that the library gives them, and no name that begins alike."""
    own, stores = tmp_path / "b", [LocalStore(str(tmp_path / "b")), S3Store("lake", "b")]
    for store, access in zip(stores, [grant_resources([], [str(own)], identity=JOB), ACCESS], strict=True):
        with restricted_to(access):
            for action in ("write", "delete"):
                require_allowed(action, f"{store.above().address}/.b.lock")
                require_allowed(action, group_beside(store).address_of("note.json"))
                for place in (group_beside(store), partitions_beside(store)):
                    require_allowed(action, f"{place.above().address}/.{place.name}.lock")
    for other in (".a.lock", ".b.lock2", ".b.lock/x", ".b", ".b.groups/x", "b.group", ".a.group/x", ""):
        assert not [action for action in ACTIONS if is_allowed(ACCESS, action, f"s3://lake/{other}")], other


def test_a_job_without_reads_or_writes_gets_none():
    """No action without a resource."""
    assert set(grant_resources([A], [], identity=JOB).allowed) == {"read", "list"}
    assert grant_resources([], [], identity=JOB).allowed == {}
    assert not allows([AccessPolicy.of(grant_resources([], [], identity=JOB))], "read", A)


@pytest.mark.parametrize(
    "location",
    [
        ".",
        "/",
        "s3://",
        "s3://lake",
        "s3://lake/",
        "s3://lake/..",
        "*",
        "/lake/*",
        "s3://lake/visits-*",
        "lake/a",
        "/lake/a?",
        "/lake/${user}",
        "file:///",
    ],
)
@pytest.mark.parametrize("use", ["reads", "writes"])
def test_a_location_that_is_no_folder_is_refused(location, use):
    """A whole bucket, a disk, a pattern, a relative path."""
    given_sets = {"reads": [A], "writes": [B], use: [location]}
    with pytest.raises(ConfigError, match=f"{use} must name folders or prefixes"):
        grant_resources(given_sets["reads"], given_sets["writes"], identity=JOB)


# --- 2: wildcards -----------------------------------------------------------------------------------------------------


def test_a_new_resource_does_not_become_accessible():
    """The job of visits does not get into visits-payroll, and a policy by which it would fails the check."""
    exact = AccessPolicy.of(grant_resources(["s3://lake/visits"], [], identity=JOB))
    wide = of_identity(Statement(actions=["read"], resources=["s3://lake/visits-*", "s3://lake/visits/*"]))
    payroll = "s3://lake/visits-payroll/2026/salaries.csv"
    assert not allows([exact], "read", payroll)
    assert lint_policies([exact]).passed
    assert allows([wide], "read", payroll)  # as every server would
    found = lint_policies([exact, wide])
    assert found.refuses
    assert found.note == (
        "own: s3://lake/visits-* allows names that nobody thought of (s3://lake/visits-payroll): name folders"
    )


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (Statement(actions=["*"], resources=[f"{A}/*"]), "* is no single action"),
        (Statement(actions=["s3:*"], resources=[f"{A}/*"]), "s3:* is no single action"),
        (Statement(actions=["reed"], resources=[f"{A}/*"]), "reed is no single action"),
        (Statement(actions=["read"], resources=["*"]), "* is a whole bucket or disk"),
        (Statement(actions=["read"], resources=["/*"]), "/* is a whole bucket or disk"),
        (Statement(actions=["read"], resources=["s3://*"]), "s3://* is a whole bucket or disk"),
        (Statement(actions=["read"], resources=["s3://lake/*"]), "s3://lake/* is a whole bucket or disk"),
        (Statement(actions=["read"], resources=["s3://lake"]), "s3://lake is a whole bucket or disk"),
        (Statement(actions=["read"], resources=[f"{A}*"]), "allows names that nobody thought of"),
        (Statement(actions=["read"], resources=["s3://lake/*/secret/*"]), "allows names that nobody thought of"),
        (Statement(actions=["read"], resources=[f"{A}/"]), "allows nothing below"),
        (Statement(effect="deny", actions=["read"], tags={"team": "hr"}), "spares a resource whose tag is mistyped"),
    ],
)
def test_a_policy_that_is_not_exact_is_flagged(rule, fault):
    """Each by its name, among others that are exact."""
    found = lint_policies([AccessPolicy.of(ACCESS), of_identity(rule, name="the wide one")])
    assert found.refuses
    assert re.fullmatch(rf"the wide one: .*{re.escape(fault)}.*", found.note)
    assert found.figures["faults"] == 1


def test_a_denial_may_be_wide():
    """It takes away; an unknown action in it is a mistake all the same."""
    wide = Statement(effect="deny", actions=["*"], resources=["s3://lake/*"])
    assert lint_policies([of_identity(wide)]).passed
    assert "delet is no single action" in lint_policies([of_identity(replace(wide, actions=["delet"]))]).note


def test_a_policy_of_a_resource_for_everybody_or_of_a_whole_bucket_is_flagged():
    """Principals and the place of a policy count as well."""
    everybody = of_resource(f"{A}/*", Statement(actions=["read"], principals=["*"]))
    assert allows([everybody], "read", f"{A}/x", principal="anybody")
    assert "* allows everybody" in lint_policies([everybody]).note
    bucket = of_resource("s3://lake/*", Statement(actions=["read"], principals=[JOB]))
    assert "is a whole bucket" in lint_policies([bucket]).note


# --- 3: two styles, one decision --------------------------------------------------------------------------------------

FOLDERS = ["s3://lake/visits", "s3://lake/visits-payroll", "s3://lake/visits/deep", "/lake/a b", "/lake/ü.x"]
RULE = st.tuples(
    st.sampled_from(["allow", "deny"]),
    st.sampled_from([JOB, "reporter", "o'brien"]),
    st.sampled_from(ACTIONS),
    st.sampled_from(FOLDERS),
    st.booleans(),
)


def expected(rules, principal, action, place):
    """What the matrix says, in plain words: a denial, an allowance, or nothing."""
    effects = {
        effect
        for effect, who, what, folder, below in rules
        if (who, what) == (principal, action) and (place.startswith(f"{folder}/") if below else place == folder)
    }
    return "allow" in effects and "deny" not in effects


@given(st.lists(RULE, max_size=12))
def test_both_styles_decide_as_the_matrix_says(rules):
    """Policies of identities and of resources agree with a model, and an explicit deny wins over any allow."""
    owned, shared = [], []
    for number, (effect, who, action, folder, below) in enumerate(rules):
        resource = f"{folder}/*" if below else folder
        rule = Statement(effect=effect, actions=[action], resources=[resource])
        owned.append(of_identity(rule, name=f"identity {number}", identity=who))
        shared.append(of_resource(resource, replace(rule, principals=[who], resources=[]), name=f"resource {number}"))
    for principal in (JOB, "reporter"):
        for action in ACTIONS:
            for place in (*FOLDERS, *(f"{folder}/x" for folder in FOLDERS)):
                wanted = expected(rules, principal, action, place)
                assert allows(owned, action, place, principal=principal) == wanted
                assert allows(shared, action, place, principal=principal) == wanted
                assert allows([*owned, *shared], action, place, principal=principal) == wanted


@given(st.lists(st.sampled_from(FOLDERS)), st.lists(st.sampled_from(FOLDERS)), st.sampled_from(ACTIONS))
def test_the_run_and_the_policy_decide_alike(reads, writes, action):
    """What refuses a location in a run, and the policy that a server gets, come from one access."""
    access = grant_resources(reads, writes, identity=JOB)
    for place in (*FOLDERS, *(f"{folder}/x" for folder in FOLDERS), "s3://lake/.visits.lock"):
        assert is_allowed(access, action, place) == allows([AccessPolicy.of(access)], action, place)


def test_a_denial_of_one_style_wins_over_the_other_style():
    """Whichever way round, and the reason names the policy."""
    lets = of_identity(Statement(actions=["delete"], resources=[f"{B}/*"]), name="lets")
    keeps = of_resource(f"{B}/kept/*", Statement(effect="deny", actions=["*"], principals=["*"]), name="keeps")
    for policies in ([lets, keeps], [keeps, lets]):
        decided = decide_access(policies, principal=JOB, action="delete", resource=f"{B}/kept/x")
        assert (decided.allowed, decided.denied) == ({}, {f"{B}/kept/x": "delete is denied by keeps"})
        assert allows(policies, "delete", f"{B}/other")
    nothing = decide_access([], principal=JOB, action="read", resource=A)
    assert nothing.denied == {A: f"no policy allows {JOB} to read it"}


@pytest.mark.parametrize(
    ("made", "match"),
    [
        ({"statements": RULES}, "attached to an identity or to a resource"),
        ({"statements": RULES, "identity": JOB, "resource": A}, "attached to an identity or to a resource"),
        ({"statements": RULES, "resource": A}, "must name principals in the policy of a resource"),
        ({"statements": [replace(RULES[0], principals=[JOB])], "identity": JOB}, "in that of an identity none"),
        ({"statements": [Statement(actions=["read"])], "identity": JOB}, "must name resources or tags"),
    ],
)
def test_a_policy_of_two_styles_or_none_is_refused(made, match):
    """When it is declared."""
    with pytest.raises(ConfigError, match=match):
        AccessPolicy(name="p", **made)


def test_what_cannot_be_decided_is_refused():
    """An unknown action is no denial, and a rule has an action."""
    with pytest.raises(ConfigError, match="action must be one of read, write, delete, list, not 'reed'"):
        decide_access([], principal=JOB, action="reed", resource=A)
    with pytest.raises(ConfigError, match="actions must name some of read, write"):
        Statement(actions=[], resources=[A])


# --- 4: tags ----------------------------------------------------------------------------------------------------------


def test_a_tag_grants_and_without_it_nothing_is_granted():
    """Adding the tag grants, removing it revokes, and a mistyped name or value of it denies, in both styles."""
    rule = Statement(actions=["read"], tags={"Project": "Marketing", "Stage": "open"})
    owned, shared = of_identity(rule), of_resource("s3://lake/*", replace(rule, principals=[JOB]))
    right = {"Project": "Marketing", "Stage": "open", "Owner": "somebody"}
    for policies in ([owned], [shared]):
        assert allows(policies, "read", C, tags=right)
        for wrong in (
            {},
            {"Project": "Marketing"},
            {**right, "Project": "marketing"},
            {**right, "Project": "Marketing "},
            {**right, "Stage": ""},
            {"Projekt": "Marketing", "Stage": "open"},
            {"project": "Marketing", "Stage": "open"},
        ):
            assert not allows(policies, "read", C, tags=wrong), wrong
        assert not allows(policies, "write", C, tags=right)
        assert not allows(policies, "read", C, tags=right, principal="somebody")


def test_a_tag_narrows_named_resources():
    """A rule with both wants both."""
    rule = of_identity(Statement(actions=["read"], resources=[f"{A}/*"], tags={"Project": "Marketing"}))
    assert allows([rule], "read", f"{A}/x", tags={"Project": "Marketing"})
    assert not allows([rule], "read", f"{A}/x")
    assert not allows([rule], "read", f"{C}/x", tags={"Project": "Marketing"})


# --- 5: number of policies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "verdict"), [(0, "ok"), (1199, "ok"), (1200, "warn"), (1500, "warn"), (1501, "fail")]
)
def test_the_number_of_policies_is_watched(count, verdict):
    """A warning from 80 % of 1,500 on, a failure above the limit; the figures say how many."""
    found = lint_policies([AccessPolicy.of(ACCESS)] * count)
    assert ("ok" if found.passed else found.severity) == verdict
    assert found.figures["policies"] == count
    assert found.passed or f"{count} " in found.note


def test_another_limit_is_an_option():
    """Providers differ, and a limit is at least one."""
    assert lint_policies([AccessPolicy.of(ACCESS)] * 8, most=10).note == "8 of at most 10 policies are in use"
    with pytest.raises(ConfigError, match="most must be at least 1, not 0"):
        lint_policies([], most=0)


# --- 6: refused in the run --------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path):
    """Tables a, b and c in a folder, by hand-written logs."""
    for name in "abc":
        write_log(tmp_path / name, {"id": "long"}, [], [{}])
    return tmp_path


@pytest.fixture
def access(lake):
    return grant_resources([str(lake / "a")], [str(lake / "b")], identity=JOB)


def state_of(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


def table_at(folder, session=None):
    return Table(
        TableSpec(folder.name, {"id": Column("BIGINT", classification="public")}), folder, session or _no_spark
    )


def _no_spark():
    raise AssertionError("Spark was asked for")


TOUCHES = {
    "read rows": ("read", lambda place: table_at(place).read()),
    "read rows at a version": ("read", lambda place: table_at(place).read(version=0)),
    "stream": ("read", lambda place: table_at(place).stream()),
    "look at the log": ("read", lambda place: Ledger(place).state()),
    "look for the table": ("read", lambda place: Ledger(place).exists()),
    "open": ("read", lambda place: Table.at(place, _no_spark)),
    "lock": ("write", lambda place: table_lock(store_at(place)).__enter__()),
    "put": ("write", lambda place: store_at(place).put("new", b"1")),
    "put if absent": ("write", lambda place: store_at(place).put_if_absent("new", b"1")),
    "claim": ("write", lambda place: store_at(place).claim(".claim")),
    "create": ("write", lambda place: LocalStore(str(place)).create("new")),
    "make a folder": ("write", lambda place: LocalStore(str(place)).make_folder("new")),
    "share": ("write", lambda place: LocalStore(str(place)).share("_delta_log/" + "0" * 20 + ".json", LocalStore("/"))),
    "show": ("write", lambda place: LocalStore(str(place)).show("link", str(place))),
    "delete": ("delete", lambda place: store_at(place).delete("_delta_log/" + "0" * 20 + ".json")),
    "delete all": ("delete", lambda place: store_at(place).delete_folder("")),
    "put by dots": ("write", lambda place: store_at(place.parent / "b").put(f"../{place.name}/new", b"1")),
}
"""Way to touch a table -> what it needs, and the way."""


@pytest.mark.parametrize("way", TOUCHES)
def test_a_run_that_touches_another_path_fails_with_the_path_before_anything_is_written(lake, access, way):
    """In any way that the library has, on the table that is only read and on one that is not declared at all."""
    action, touch = TOUCHES[way]
    before = state_of(lake)
    for name in {"read": "c"}.get(action, "ac"):
        with restricted_to(access):
            said = refusal(lambda name=name: touch(lake / name))
        assert f"{JOB} may not {action} {lake}/" in said
        assert f"{lake / name}" in said or f".{name}.lock" in said
    assert state_of(lake) == before


def test_a_run_touches_what_it_declares(lake, access):
    """Reading A and writing B, with the lock, a claim and removals."""
    with restricted_to(access):
        assert Ledger(lake / "a").version() == 1
        own = store_at(lake / "b")
        with table_lock(own):
            own.put("part", b"1")
            own.claim(".claim").release()
            own.delete("part", ".claim")
        own.delete_folder("")
    assert not (lake / "b").exists()


@pytest.mark.spark
def test_an_undeclared_table_is_refused_before_spark_writes_a_row(spark, lake, access):
    """The write of rows to A and to C leaves no file there, and to B the rows arrive."""
    rows, before = spark.range(3), state_of(lake)
    with restricted_to(access):
        for name in "ac":
            said = refusal(lambda name=name: table_at(lake / name, spark).overwrite(rows, provenance=a_run(name)))
            assert str(lake) in said
        assert state_of(lake) == before
        table_at(lake / "b", spark).overwrite(rows, provenance=a_run("b"))
        assert table_at(lake / "b", spark).read().count() == 3
        assert table_at(lake / "a", spark).read().schema.names == ["id"]


# --- documents, and a server that enforces them -----------------------------------------------------------------------


def test_a_document_states_the_same_rules():
    """Calls of S3 by resource, listings by prefix, a denial as a denial, principals and tags as conditions."""
    first, listed, *_ = of_identity(*RULES).document()["Statement"]
    assert first == {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::lake/a/*"]}
    assert listed["Resource"] == ["arn:aws:s3:::lake"]
    assert listed["Condition"] == {"StringLike": {"s3:prefix": ["a/*"]}}
    assert of_identity(RULES[2]).document()["Statement"] == [
        {"Effect": "Deny", "Action": ["s3:DeleteObject"], "Resource": ["arn:aws:s3:::lake/b/kept/*"]}
    ]
    tagged = Statement(actions=["read", "list"], tags={"Project": "Marketing"}, principals=["o'brien"])
    (stated,) = of_resource(f"{A}/*", tagged).document()["Statement"]
    assert stated["Principal"] == {"AWS": ["o'brien"]}
    assert stated["Resource"] == ["arn:aws:s3:::lake/a/*"]
    assert stated["Condition"] == {"StringEquals": {"s3:ExistingObjectTag/Project": "Marketing"}}


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        (Statement(actions=["read"], resources=["/lake/a/*"]), "/lake/a/[*] must be in a bucket"),
        (Statement(actions=["reed"], resources=[A]), "actions must be of read, write, delete, list, not 'reed'"),
        (Statement(effect="deny", actions=["list"], tags={"a": "b"}), "a listing must be denied by name, not by tag"),
    ],
)
def test_what_no_server_could_enforce_is_no_document(rule, match):
    """A document must not say less than the decision."""
    with pytest.raises(ConfigError, match=match):
        of_identity(rule).document()


def test_identities_for_a_server_hold_no_secret():
    """Each with its policies; credentials are added where they are made."""
    access = replace(ACCESS, secret=Secret("of-the-identity"))
    shared = of_resource(A, replace(RULES[0], principals=["x"]))
    made = identities_of([AccessPolicy.of(access), of_identity(RULES[2], name="kept"), shared])
    assert made["identities"] == [{"name": JOB, "policyNames": [JOB, "kept"]}]
    assert [each["name"] for each in made["policies"]] == [JOB, "kept"]
    assert "of-the-identity" not in json.dumps(made)


KEYS = {"gold/b": ("job-b", "secret-of-job-b"), "kept": ("kept", "secret-of-kept")}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A real S3 server with the generated identities, and the objects of an administrator."""
    folder = tmp_path_factory.mktemp("s3")
    s3.variables(folder, port=1)  # makes the administrator's keys
    file = folder / "identities.json"
    known = json.loads(file.read_text())
    kept = of_identity(*RULES, name="kept", identity="kept")
    made = identities_of([AccessPolicy.of(ACCESS), kept])
    for each in made["identities"]:
        key, secret = KEYS[each["name"]]
        each["credentials"] = [{"accessKey": key, "secretKey": secret}]
    file.write_text(
        json.dumps({"identities": [*known["identities"], *made["identities"]], "policies": made["policies"]})
    )
    with s3.serving(folder, bucket="lake") as port:
        yield s3.variables(folder, port=port)


@pytest.fixture
def as_identity(server, monkeypatch):
    """Sets the environment of an identity, or of the administrator."""

    def become(name=""):
        key, secret = KEYS.get(name, (server["AWS_ACCESS_KEY_ID"], server["AWS_SECRET_ACCESS_KEY"]))
        for variable, value in {**server, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}.items():
            monkeypatch.setenv(variable, value)
        forget_clients()

    become()
    for key in ("a/x", "a/day=1/y", "a-payroll/x", "b/x", "b/kept/x", "c/x"):
        S3Store("lake").put(key, b"1")
    yield become
    forget_clients()


@pytest.mark.slow
def test_a_server_enforces_the_generated_policy(as_identity):
    """Reading A and writing B works; writing A, deleting in A, reading C or A-payroll is refused by the server."""
    as_identity(JOB)
    a, b, c, payroll = (S3Store("lake", name) for name in ("a", "b", "c", "a-payroll"))
    assert a.read("x") == a.read("day=1/y") == b"1"
    assert [each.path for each in a.files()] == ["day=1/y", "x"]
    b.put("new", b"2")
    b.put_if_absent("absent", b"3")
    b.delete("absent")
    assert [each.path for each in b.files()] == ["kept/x", "new", "x"]
    with table_lock(b):  # the lease lies beside the prefix
        b.put("locked", b"4")
    refused = [
        lambda: a.put("x", b"2"),
        lambda: a.put("new", b"2"),
        lambda: a.delete("x"),
        lambda: a.delete("x", "day=1/y"),
        lambda: c.read("x"),
        lambda: c.put("x", b"2"),
        c.files,
        lambda: payroll.read("x"),
        payroll.files,
        S3Store("lake").files,
        lambda: table_lock(a).__enter__(),
    ]
    for each in refused:
        with pytest.raises((PermissionError, ConfigError), match="the server refuses it"):
            each()
    as_identity()
    assert (a.read("x"), b.read("new"), b.read("locked")) == (b"1", b"2", b"4")
    assert [each.path for each in a.files()] == ["day=1/y", "x"]


@pytest.mark.slow
def test_a_server_lets_a_denial_win(as_identity):
    """Of two statements of one policy."""
    as_identity("kept")
    S3Store("lake", "b").delete("x")
    with pytest.raises(PermissionError):
        S3Store("lake", "b").delete("kept/x")
    as_identity()
    assert [each.path for each in S3Store("lake", "b").files()][:1] == ["kept/x"]


@pytest.mark.slow
def test_in_a_bucket_a_run_is_refused_before_the_server_is_asked(as_identity):
    """The restriction of the run holds with the keys of an administrator, too, in the threads of the store as well."""
    as_identity()
    with restricted_to(ACCESS):
        assert S3Store("lake", "b").read("kept/x") == b"1"
        S3Store("lake", "b").put("mine", b"5")
        for way in (
            lambda: S3Store("lake", "a").put("x", b"2"),
            lambda: S3Store("lake", "a").put_if_absent("y", b"2"),
            lambda: S3Store("lake", "a").delete("x"),
            lambda: S3Store("lake", "a").delete_folder(""),
            lambda: S3Store("lake", "a").claim(".c"),
            lambda: table_lock(S3Store("lake", "a")).__enter__(),
            lambda: Ledger("s3://lake/c").exists(),
        ):
            assert re.search(r"gold/b may not (write|delete|read) s3://lake/", refusal(way))
    assert [each.path for each in S3Store("lake", "a").files()] == ["day=1/y", "x"]


@known_calls
def calls_that_work(known):
    policies = [of_identity(*RULES), AccessPolicy.of(ACCESS)]
    asked = {"principal": JOB, "action": "read", "resource": A, "tags": {"Project": "Marketing"}}
    return {
        "decide_access": {"policies": policies, **asked},
        "lint_policies": {"policies": policies, "most": 1500},
    }
