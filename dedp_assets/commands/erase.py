"""``dedp erase``: plan, approval and erasure of a person in every table and file.

A request begins with a plan, `--subject user=u-17 --because GDPR-17`, and is carried out once a person approved it by
`--because GDPR-17 --by NAME`. The same call goes on after a crash, and ends what had to wait.

Exit code 1: a request is not ended: something is held, computed again, or owed by a later run.

Examples:
    dedp erase --subject user=u-17 --because GDPR-17  # plans, and erases nothing
    dedp erase --because GDPR-17 --by Ada
    dedp erase --json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import Grid, console, print_json, say
from dedp_assets.commands._subjects import add_subject, ids_in
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.erasure.cases import Case
from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.governance.gdpr_erase import Erasure
from dedp_assets.project import project

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the person, the request, the approval, and the bounds."""
    add_subject(parser)
    parser.add_argument("--by", default="", metavar="NAME", help="who approves the plan; the erasure starts")
    parser.add_argument(
        "--most", type=float, default=0.1, help="share of a table's rows that the person may have (0.1)"
    )
    parser.add_argument("--leave-held", action="store_true", help="leave rows on legal hold until it is released")
    add_json(parser)


def computes(chosen: argparse.Namespace) -> bool:
    """Return whether rows are read: for a plan, and for an erasure."""
    return bool(chosen.because)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Plan, approve and carry out a request, or list the requests.

    The exit code is 1 while something is left to do.

    Raises:
        ConfigError: for a person without a request, a request that nobody planned, an id that no table can have, or a
            report that was changed.
        ContractError: if the person has too many rows, or rows on legal hold.
    """
    require_home(settings)
    eraser = Eraser.of(settings, lake_of(settings), project().tables(), Secrets(), project().jobs())
    if not chosen.because:
        if chosen.subject or chosen.by:
            raise ConfigError("a request must be stated: dedp erase --subject user=u-17 --because GDPR-17")
        return _listed([*eraser.cases], as_json=chosen.json)
    now = Clock().now()
    case = _planned(eraser, chosen, now)
    if chosen.by and not case.approved_by:
        case = eraser.cases.approve(case.request, chosen.by)
    if case.approved_by:
        by = Provenance(asset="erasure", run_id=f"erase-{now:%Y%m%dT%H%M%S}", at=now, cause="erasure")
        case = eraser.erase(case, by, now=now, most=chosen.most, leave_held=chosen.leave_held)
    if case.ended and not eraser.cases.is_genuine(case):
        raise ConfigError(f"the report of {case.request} must be as this home signed it, and was changed since")
    return _shown(case, as_json=chosen.json)


def _planned(eraser: Eraser, chosen: argparse.Namespace, now: datetime) -> Case:
    """Return the case of a request, planned now for stated persons and for a request without a plan."""
    known = not chosen.subject or eraser.cases.knows(chosen.because)
    case = eraser.cases.case(chosen.because) if known else None
    if case and (case.approved_by or not (chosen.subject or case.state == "asked")):
        return case
    ids = ids_in(chosen.subject) if chosen.subject or not case else eraser.cases.ids(case)
    return eraser.plan(Erasure(request=chosen.because, ids=ids, at=now, because=chosen.because, most=chosen.most))


def _shown(case: Case, *, as_json: bool) -> int:
    if as_json:
        print_json(asdict(case))
    else:
        grid = Grid("place", "kind", "rows or values", "state", "note", title=f"{case.request}: {_state(case)}")
        for place in case.places:
            if place.state != "nothing":
                due = f" (by {place.due})" if place.due else ""
                grid.add_row(place.name, place.kind, str(place.found), place.state, f"{place.note}{due}")
        console().print(grid)
        if not case.approved_by:
            say(f"nothing is erased yet: dedp erase --because {case.request} --by NAME")
        elif case.open:
            say(f"go on once these can be erased: dedp erase --because {case.request}")
    return 0 if case.ended or not case.approved_by else 1


def _listed(cases: Sequence[Case], *, as_json: bool) -> int:
    if as_json:
        print_json([asdict(case) for case in cases])
    elif not cases:
        say("there is no request: `dedp erase --subject user=u-17 --because GDPR-17` plans one")
    else:
        grid = Grid("request", "since", "due", "erased", "state")
        for case in cases:
            grid.add_row(case.request, case.at[:10], f"{case.due:%Y-%m-%d}", str(case.erased), _state(case))
        console().print(grid)
    return 1 if any(case.open for case in cases) else 0


def _state(case: Case) -> str:
    if case.ended:
        return f"ended on {case.ended[:10]}, approved by {case.approved_by}"
    if case.approved_by:
        return f"open, approved by {case.approved_by}"
    return "asked, to be planned" if case.state == "asked" else "planned, to be approved"
