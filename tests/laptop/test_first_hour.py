"""The first hour of a new user, from the built wheel: every answer about a project is the same one, at every step."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.laptop.servers.ports import free as free_port
from tests.faults.processes import command, living
from tests.platforms import COMMANDS, DEDP, Up, platform_up
from tests.wheel import Wheel, built_wheel

pytestmark = [pytest.mark.slow, pytest.mark.budget(330, "a platform of a wheel, with five changes of its project")]

Named = tuple[str, str, str]
"""Kind, table and partition of a trouble."""
PATIENCE = 600
"""Seconds after which something does not come any more."""
PORTS = ("--port", "--engine-port", "--status-port", "--registry-port")
DAY = "2026-01-25"
TRIPS = """\
trip_id,picked_up,mail,fare
1,25/01/2026 10:00,ada1@x.org,12.5
2,25/01/2026 11:30,ada2@x.org,8.25
3,25/01/2026 23:59,ada3@x.org,40.0
"""
LANDING = """\
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/trips
  folder: trips
  format: {csv: {}}
  partitions: {daily: {start: 2026-01-05}}
  event_time: picked_up
  keys: [trip_id]
  about: {owner: "team:data"}
"""
FARES = """\
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/fares
    columns: {event_date: {type: DATE, required: true}, trips: {type: BIGINT, required: true}, fares: {type: DOUBLE}}
    partition_by: [event_date]
  reads: {tables: {silver/trips: {same: {column: event_date}}}}
  runs: {partitions: {daily: {start: 2026-01-05}}}
  gates:
    audits: [{name: every_trip_is_counted, of: trips, sql: sum(trips), per: read, fail_below: 1, fail_above: 1}]
  about: {owner: "team:data"}
  code_version: "1"
  steps:
    - tally: {identity: [source_file, line_number]}
    - sql: SELECT event_date, count(*) AS trips, sum(fare) AS fares FROM {rows} GROUP BY event_date
    - account: {represented: trips}
    - quality.audit_write_audit_publish: {allow_empty: true}
"""
PERSONAL = "mail: {classification: personal, type: STRING}"
RIGHT, WRONG = "d/M/yyyy", "M/d/yyyy"
SALES = {"2026-01-05": (21, 420.0), "2026-01-06": (20, 410.0), "2026-01-07": (20, 400.0)}
REFUSED = ("refused", "silver/trips", DAY)


@dataclass(frozen=True)
class Voice:
    """What one command or page answers: the troubles, a word or number for how it is, and all of its text."""

    state: object
    troubles: frozenset[Named] | None
    text: str


@dataclass(frozen=True)
class Hour:
    """A project of a wheel, its running platform, and everything that commands said."""

    wheel: Wheel
    root: Path
    up: Up
    outputs: list[str] = field(default_factory=list)

    def dedp(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in the project's folder."""
        done = called(self.wheel, *words, cwd=self.root)
        self.outputs.append(f"$ dedp {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done

    def get(self, path: str) -> str:
        """A page of the status server; an empty text while it starts."""
        address = f"http://127.0.0.1:{self.up.ports['--status-port']}{path}"
        with suppress(OSError), urllib.request.urlopen(address, timeout=120) as reply:
            return reply.read().decode()
        return ""

    def write(self, folder: str, **files: str) -> None:
        """Put files of a declaration in place, each at once, and its folder at once if it is new."""
        target, draft = self.root / "my_lake" / "defs" / folder, self.root / "drafts" / folder
        draft.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (draft / f"{name}.yaml").write_text(text)
        if not target.exists():
            draft.rename(target)
            return
        for name in files:
            (draft / f"{name}.yaml").replace(target / f"{name}.yaml")

    def land(self, dataset: str, day: str, text: str) -> None:
        """A delivery, whose marker comes last."""
        folder = self.root / ".dedp" / "landing" / dataset / day
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text(text)
        (folder / "_SUCCESS").touch()

    def rows(self, table: str, *columns: str) -> list[tuple[object, ...]]:
        """The rows that an independent reader finds, sorted; none before there is a table."""
        path = str(self.root / ".dedp" / "lakehouse" / table)
        found = DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []
        return sorted(tuple(row[column] for column in columns) for row in found)

    def sales(self) -> dict[str, tuple[int, float]]:
        """Orders and amounts by day."""
        return {
            str(day): (n, amount) for day, n, amount in self.rows("gold/sales_by_day", "event_date", "orders", "amount")
        }

    def voices(self) -> dict[str, Voice]:
        """What each command and page says of the project now; imports cost most, so one process calls the commands."""
        words = [["check"], ["status"], ["alerts"], ["status", "--json"]]
        done = self.wheel.run(COMMANDS, json.dumps(words), cwd=self.root)
        self.outputs.extend([done.stdout, done.stderr])
        assert done.returncode == 0, done.stderr
        check, status, alerts, document = json.loads(done.stdout)
        served, page = self.get("/status.json"), self.get("/")
        verdict = re.search(r'<p class="summary v-(\w+)"', page)
        return {
            "dedp check": Voice(check[0], None, check[1] + check[2]),
            "dedp status": Voice(status[0], of_grid(status[1]), status[1]),
            "dedp alerts": Voice(alerts[0], of_grid(alerts[1]), alerts[1]),
            "dedp status --json": Voice((document[0], verdict_of(document[1])), of_json(document[1]), document[1]),
            "/status.json": Voice(verdict_of(served), of_json(served), served),
            "/": Voice(verdict and verdict[1], of_page(page), page),
        }

    def is_green(self) -> bool:
        """Whether the page's document says that nothing is wrong and nothing is under way."""
        served = self.get("/status.json")
        return (verdict_of(served), of_json(served)) == ("ok", frozenset()) and not under_way(served)

    def agree(self, verdict: str = "ok", troubles: Collection[Named] = (), *, fault: str = "") -> dict[str, Voice]:
        """Wait until all commands and pages name exactly these troubles, with the documented exit codes; what they say.

        Args:
            verdict: the project's.
            troubles: all that need somebody.
            fault: words of the fault of a declaration, which all of them name; empty without one.
        """
        code, named = int(verdict != "ok"), frozenset(troubles)
        expected = {
            "dedp check": (int(bool(fault)), None),
            "dedp status": (code, named),
            "dedp alerts": (code, named),
            "dedp status --json": ((code, verdict), named),
            "/status.json": (verdict, named),
            "/": (verdict, named),
        }
        heard = dict[str, Voice]()

        def all_agree() -> bool:
            # The page first: a look at it costs little.
            served = self.get("/status.json")
            if (verdict_of(served), of_json(served)) != expected["/status.json"] or under_way(served):
                return False
            heard.clear()
            heard.update(self.voices())
            said = {name: (voice.state, voice.troubles) for name, voice in heard.items()}
            return said == expected and all(fault in voice.text for voice in heard.values())

        agreed = self.up.comes(all_agree, every=1)
        heard = heard or self.voices()
        told = "\n".join(f"== {name}: {v.state} {v.troubles}\n{v.text[:4000]}" for name, v in heard.items())
        assert agreed, f"{expected}\n{told}\n== dedp up\n{self.up.said()}"
        self.up.see()
        assert "Traceback" not in self.up.said() + "".join(self.outputs)
        return heard


def called(wheel: Wheel, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command of the wheel."""
    environment = wheel.environment(DEDP_JIT="quick", DEDP_TICK_SECONDS="2")
    return subprocess.run([DEDP, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def of_grid(text: str) -> frozenset[Named]:
    """The troubles in the table that a command prints under their title."""
    found, lines = list[list[str]](), iter(text.splitlines())
    if not any(line.strip() == "Troubles" for line in lines):
        return frozenset()
    for line in lines:
        if line.startswith("└"):
            break
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if cells and cells[0]:
            found.append(cells[1:4])
        elif cells:
            found[-1] = [" ".join(filter(None, pair)) for pair in zip(found[-1], cells[1:4], strict=True)]
    return frozenset((kind, table, partition) for kind, table, partition in found)


def of_json(text: str) -> frozenset[Named]:
    """The troubles in a document that need somebody."""
    troubles = json.loads(text)["troubles"] if text else ()
    return frozenset((t["kind"], t["table"], t["partition"]) for t in troubles if t["severity"] != "info")


def under_way(text: str) -> list[object]:
    """What a document says of partitions that wait for a run."""
    return [each for each in json.loads(text)["troubles"] if each["severity"] == "info"]


def verdict_of(text: str) -> str:
    """The verdict of a document; empty without one."""
    return json.loads(text)["verdict"] if text else ""


def of_page(html: str) -> frozenset[Named]:
    """The troubles in the cards of a page that need somebody."""
    heads = re.findall(r'<li class="trouble (?:warning|critical)">.*?<span class="what">(.*?)</span>', html, re.DOTALL)
    texts = [re.sub(r"<[^>]+>", "", head) for head in heads]
    return frozenset((kind, *place.partition(" ")[::2]) for kind, _, place in (text.partition(": ") for text in texts))


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    """`dedp new my_lake`, and `dedp up` in it; the tests tell one story, and the last one ends it."""
    wheel, folder = built_wheel(tmp_path_factory.mktemp("wheel")), tmp_path_factory.mktemp("user")
    made = called(wheel, "new", "my_lake", cwd=folder)
    assert made.returncode == 0, made.stderr
    root, ports = folder / "my_lake", {name: free_port() for name in PORTS}
    environment = wheel.environment(DEDP_JIT="quick", DEDP_TICK_SECONDS="2")
    with platform_up(root / ".dedp", ports, environment, said=folder / "said", cwd=root) as up:
        yield Hour(wheel, root, up, [made.stdout, made.stderr])


def test_a_new_project_goes_to_gold_and_is_green(hour):
    """The sample is loaded by itself, from the code of the wheel."""
    assert hour.up.says("ready     status: ", seconds=PATIENCE), hour.up.said()
    assert hour.up.comes(lambda: hour.sales() == SALES), hour.up.said()
    hour.agree()
    where = hour.wheel.run("import dedp_assets; print(dedp_assets.__file__)", cwd=hour.root)
    assert Path(where.stdout.strip()).is_relative_to(hour.wheel.site)


def test_a_fault_of_a_declaration_is_known_to_everybody(hour):
    """The platform goes on without the new table, whose columns `dedp infer` wrote; one is changed for the worse."""
    draft = hour.root / "drafts" / "trips"
    draft.mkdir(parents=True)
    (draft / "defs.yaml").write_text(LANDING)
    hour.land("trips", DAY, TRIPS)
    done = hour.dedp("infer", "drafts/trips")
    assert done.returncode == 0, done.stdout + done.stderr
    columns = (draft / "columns.yaml").read_text()
    assert RIGHT in columns, columns
    columns = columns.replace(RIGHT, WRONG).replace("mail: {type: STRING}", PERSONAL)
    hour.write("trips", columns=columns, defs=LANDING.replace("event_time: picked_up", "event_time: picked_upp"))
    hour.agree("unknown", fault="picked_upp")
    assert "picked_upp" in hour.up.said()
    assert hour.sales() == SALES


def test_a_wrong_date_format_is_refused_with_reason_record_and_remedy(hour):
    """The fault is mended, and the table is loaded; the format of one column of times is still a wrong one."""
    hour.write("trips", defs=LANDING)
    heard = hour.agree("warning", [REFUSED])
    (trouble,) = [each for each in json.loads(heard["/status.json"].text)["troubles"] if each["kind"] == "refused"]
    letters = hour.dedp("letters")
    assert letters.returncode == 0
    assert "ada1" not in "".join(hour.outputs) + heard["/"].text
    for said in (trouble["reason"], letters.stdout):
        assert "picked_up is not a TIMESTAMP" in said
        assert "'aaa9@a.aaa'" in said
    assert "dedp letters" in trouble["reason"]
    assert hour.rows("silver/trips", "trip_id") == []


def test_a_mended_declaration_is_loaded_by_itself(hour):
    """Its rows are those of the delivered file."""
    columns = (hour.root / "my_lake/defs/trips/columns.yaml").read_text()
    hour.write("trips", columns=columns.replace(WRONG, RIGHT))
    assert hour.up.comes(hour.is_green, every=1), hour.up.said()
    plain = csv.DictReader(io.StringIO(TRIPS))
    rows = [
        (
            int(row["trip_id"]),
            datetime.strptime(f"{row['picked_up']} +0000", "%d/%m/%Y %H:%M %z"),
            row["mail"],
            float(row["fare"]),
        )
        for row in plain
    ]
    found = hour.rows("silver/trips", "trip_id", "picked_up", "mail", "fare")
    assert [(int(number), *more) for number, *more in found] == rows
    shown = hour.dedp("show", "silver/trips", DAY)
    assert shown.returncode == 0, shown.stderr
    assert all(
        row["fare"] in shown.stdout and row["mail"] not in shown.stdout for row in csv.DictReader(io.StringIO(TRIPS))
    )
    assert "no dead letters" in hour.dedp("letters").stdout or "silver/trips" not in hour.dedp("letters").stdout


def test_the_page_of_the_first_hour_is_the_hour(hour):
    """In at most twelve commands; those of dedp were run here, with this file, this declaration and this reason."""
    page = (CHECKOUT / "docs/how_to/first_hour.md").read_text()
    commands = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
    assert len([part for line in commands for part in line.split(" && ") if not part.startswith("cd ")]) <= 12
    assert re.findall(r"```csv\n(.*?)```", page, re.DOTALL) == [TRIPS]
    assert re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) == [LANDING]
    run = {line.partition("\n")[0].removeprefix("$ ") for line in hour.outputs} | {
        "dedp new my_lake && cd my_lake",
        "dedp up",
    }
    assert {line for line in commands if line.startswith("dedp ")} <= run
    (reason,) = re.findall(r"^> (.*)$", page, re.MULTILINE)
    assert any(reason in " ".join(said.replace("│", " ").split()) for said in hour.outputs)
    assert all(
        part in page for part in (f"`{WRONG} HH:mm`", f"`{RIGHT} HH:mm`", f"landing/trips/{DAY}/a.csv", PERSONAL[6:])
    )


def test_a_table_is_added_and_removed_while_everything_runs(hour):
    """It is loaded; without its declaration it is told at most once, and what else is declared goes on."""
    hour.write("fares", defs=FARES)
    assert hour.up.comes(lambda: hour.rows("gold/fares", "trips", "fares") == [(3, 60.75)]), hour.up.said()
    assert hour.up.comes(hour.is_green, every=1), hour.up.said()
    before = len(hour.up.said())
    shutil.rmtree(hour.root / "my_lake/defs/fares")
    day, orders = "2026-01-08", "order_id,ordered_at,customer,amount\n8000,2026-01-08T10:00:00Z,Ada,5.00\n"
    assert hour.up.comes(lambda: "reloaded" in hour.up.said()[before:]), hour.up.said()
    hour.land("orders", day, orders)
    assert hour.up.comes(lambda: hour.sales() == {**SALES, day: (1, 5.0)}), hour.up.said()
    heard = hour.agree()
    states = {table["name"]: table["verdict"] for table in json.loads(heard["/status.json"].text)["tables"]}
    assert (states["gold/fares"], states["gold/sales_by_day"]) == ("unknown", "ok")
    said = hour.up.said()[before:].splitlines()
    assert sum("gold/fares" in line for line in said) <= 1, said
    assert not [line for line in hour.up.said().splitlines() if re.search(r"^\S+  (restart|failed|notice) ", line)]


def test_a_lost_file_is_red_until_the_named_command_has_repaired_it(hour):
    """The trouble names a command, and that one the command that computes the rows again."""
    day = "2026-01-06"
    columns = ("order_id", "ordered_at", "customer", "amount")
    before = hour.rows("silver/orders", *columns)
    stored = DeltaTable(str(hour.root / ".dedp/lakehouse/silver/orders"))
    Path(stored.file_uris(file_pruning_predicate=[("event_date", "=", day)])[0]).unlink()
    heard = hour.agree("critical", [("lost files", "silver/orders", f"event_date={day}")])
    (trouble,) = [each for each in json.loads(heard["/status.json"].text)["troubles"] if each["kind"] == "lost files"]
    (helps,) = re.findall(r"`dedp (.*?)`", trouble["reason"])
    looked = hour.dedp(*helps.split())
    assert looked.returncode == 1, looked
    (repairs,) = re.findall(r"dedp (run .*)", looked.stdout)
    repaired = hour.dedp(*repairs.split())
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    hour.agree()
    assert hour.rows("silver/orders", *columns) == before
    assert hour.dedp(*helps.split()).returncode == 0


def test_ctrl_c_ends_everything_and_no_log_has_a_stack_trace(hour):
    """Of the group of its processes nothing is left; neither what it said nor its logs show a Python stack."""
    hour.up.see()
    group = hour.up.process.pid
    os.kill(group, signal.SIGINT)
    assert hour.up.process.wait(timeout=PATIENCE) == 0
    assert not living(hour.up.everything), [command(process) for process in living(hour.up.everything)]
    assert not [each for each in psutil.process_iter() if _group(each) == group]
    assert hour.up.said().splitlines()[-1].endswith("nothing of it runs any more")
    logs = [*(hour.root / ".dedp" / "logs").rglob("*.log")]
    texts = {str(path): path.read_text(errors="replace") for path in logs}
    texts |= {"dedp up": hour.up.said(), "commands": "".join(hour.outputs)}
    assert logs
    assert not {name: text[-3000:] for name, text in texts.items() if "Traceback" in text}


def _group(process: psutil.Process) -> int:
    """The group of a process; 0 if it is gone."""
    with suppress(OSError):
        return os.getpgid(process.pid)
    return 0
