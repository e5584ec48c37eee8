"""The pages of requests to erase persons: list with a form to ask, and report with a form to approve.

No page holds an id: ids go in by the form, and lie sealed from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from dedp_assets.graph.erasure.cases import Case, CasePlace
from dedp_assets.laptop.status_page.markup import Markup, h, joined
from dedp_assets.laptop.status_page.model import age, moment
from dedp_assets.laptop.status_page.pieces import document, header, notices, with_code

__all__ = ["render_case", "render_cases"]

_REFRESH_SECONDS = 60
_NUMBERS = ("Erased", "Places open", "Rows or values")
_BADGES = {
    "asked": ("info", "… asked, to be planned"),
    "planned": ("warning", "! planned, to be approved"),
    "approved": ("info", "… approved, under way"),
    "ended": ("ok", "✓ ended"),
}
_HEADS = ('<th scope="col">{name}</th>', '<th scope="col" class="n">{name}</th>')
_ASK = """<h2>Ask</h2><form method="post" action="/erasures" autocomplete="off">
<input type="hidden" name="token" value="{token}">
<label>Kind of person <select name="kind">{kinds}</select></label>
<label>Id <input name="id" required maxlength="1000"></label>
<label>Request <input name="because" required maxlength="64" placeholder="GDPR-17"></label>
<button>Ask</button></form>
<p class="soft">A request gets a plan first, and erases nothing before somebody has approved the plan.</p>"""
_APPROVE = """<h2>Approve</h2><form method="post" action="/erasures/{request}/approval" autocomplete="off">
<input type="hidden" name="token" value="{token}">
<label>Name of who approves <input name="by" required maxlength="100"></label>
<button>Approve, and erase</button></form><p class="soft">An erasure cannot be undone.</p>"""
_COMMAND = """<h2>Approve</h2><p>An erasure cannot be undone. This door has no lock, so the plan is approved by a
command: <code>dedp erase --because {request} --by NAME</code></p>"""


def render_cases(
    cases: Sequence[Case], faults: Mapping[str, str], now: datetime, *, kinds: Sequence[str], token: str
) -> str:
    """Return the list of requests as an HTML document.

    Args:
        cases: the requests.
        faults: requests that cannot be read -> why.
        now: current time, with time zone.
        kinds: kinds of persons that tables declare.
        token: shows that a form is of this server.
    """
    options = joined(h("<option>{kind}</option>", kind=kind) for kind in kinds)
    ask = h(_ASK, token=token, kinds=options) if kinds else h('<p class="soft">No table declares persons.</p>')
    body = joined(
        [
            header("Requests to erase persons", now, "", asset="erasures"),
            *notices(faults.values()),
            _list(sorted(cases, key=lambda case: case.at, reverse=True), now),
            ask,
            _footer("/erasures.json"),
        ]
    )
    return document("Requests to erase persons", body, verdict=_verdict(cases, now))


def render_case(case: Case, now: datetime, *, genuine: bool, token: str) -> str:
    """Return the report of a request as an HTML document.

    Args:
        case: the request.
        now: current time, with time zone.
        genuine: whether this home signed the report of an ended request as the report stands.
        token: shows that a form is of this server; empty for a server that approves nothing.
    """
    approve = h(_APPROVE if token else _COMMAND, request=case.request, token=token)
    body = joined(
        [
            header(case.request, now, "", asset="erasures"),
            h(
                '<p class="summary v-{verdict}">{badge}<small>{facts}</small></p>',
                verdict=_BADGES[case.state][0],
                badge=_BADGES[case.state][1],
                facts="; ".join(_facts(case, now)),
            ),
            *notices(_changed(case, genuine=genuine)),
            h("<h2>Places</h2>"),
            _places([place for place in case.places if place.state != "nothing"]),
            approve if case.state == "planned" else Markup(""),
            _footer(f"/erasures/{case.request}.json"),
        ]
    )
    waits = _REFRESH_SECONDS if case.state in ("asked", "approved") else 0
    return document(f"{case.request}: {case.state}", body, refresh=waits, verdict=_verdict([case], now))


def _verdict(cases: Sequence[Case], now: datetime) -> str:
    return "critical" if any(case.due < now and not case.ended for case in cases) else "ok"


def _facts(case: Case, now: datetime) -> list[str]:
    since = datetime.fromisoformat(case.at)
    facts = [f"since {moment(since, now)}, {age(since, now)}", f"due by {case.due:%Y-%m-%d}"]
    facts += [f"approved by {case.approved_by}"] if case.approved_by else []
    return [*facts, f"ended {moment(datetime.fromisoformat(case.ended), now)}"] if case.ended else facts


def _changed(case: Case, *, genuine: bool) -> list[str]:
    if not case.ended or genuine:
        return []
    return [f"The report of {case.request} must be as this home signed it, and was changed since."]


def _list(cases: Sequence[Case], now: datetime) -> Markup:
    if not cases:
        return h('<p class="soft">There is no request yet.</p>')
    return _table(("Request", "Since", "Due", "Erased", "State", "Places open"), [_row(case, now) for case in cases])


def _row(case: Case, now: datetime) -> Markup:
    verdict, badge = _BADGES[case.state]
    late = "✕ late: " if _verdict([case], now) == "critical" else ""
    return h(
        '<tr><td class="name"><a href="/erasures/{request}">{request}</a></td><td class="nowrap">{since}</td>'
        '<td class="nowrap">{late}{due}</td><td class="n">{erased}</td>'
        '<td><span class="badge v-{verdict}">{badge}</span></td><td class="n">{open}</td></tr>',
        request=case.request,
        since=case.at[:10],
        late=late,
        due=f"{case.due:%Y-%m-%d}",
        erased=f"{case.erased:,}",
        verdict=verdict,
        badge=badge,
        open=len(case.open),
    )


def _places(places: Sequence[CasePlace]) -> Markup:
    rows = [
        h(
            '<tr><td class="name">{name}</td><td>{kind}</td><td class="n">{found}</td><td>{state}</td>'
            "<td>{note}</td></tr>",
            name=place.name,
            kind=place.kind,
            found=f"{place.found:,}",
            state=place.state,
            note=with_code(f"{place.note} (by {place.due})" if place.due else place.note),
        )
        for place in places
    ]
    if not rows:
        return h('<p class="soft">No place holds a row, a value or a file of the persons.</p>')
    return _table(("Place", "Kind", "Rows or values", "State", "Note"), rows)


def _table(names: Sequence[str], rows: Sequence[Markup]) -> Markup:
    head = joined(h(_HEADS[name in _NUMBERS], name=name) for name in names)
    return h(
        '<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
        head=head,
        rows=joined(rows),
    )


def _footer(programs: str) -> Markup:
    links = h('<a href="/erasures">All requests</a>. For programs: <a href="{path}">{path}</a>.', path=programs)
    return h("<footer>{links} The same in a terminal: <code>dedp erase</code>.</footer>", links=links)
