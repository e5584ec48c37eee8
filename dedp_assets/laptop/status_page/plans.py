"""The page of the plan: runs that would come now, with reasons, time and cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from dedp_assets.graph.reconcile.described_plans import PlanSection
from dedp_assets.laptop.status_page.markup import Markup, h, joined
from dedp_assets.laptop.status_page.pieces import document, header, with_code

__all__ = ["render_plan"]

_FOOTER = """<footer>What the reconciler asks for now, and what follows if each run succeeds. For programs:
<a href="/plan.json">/plan.json</a>. The same in a terminal: <code>dedp plan</code>.</footer>"""


def render_plan(lines: Iterable[str | PlanSection], now: datetime) -> str:
    """Return the plan of runs as an HTML document.

    Args:
        lines: the description of the plan.
        now: time of the plan.
    """
    body = [h("<p>{text}</p>", text=with_code(each)) if isinstance(each, str) else _section(each) for each in lines]
    return document("Plan", joined([header("Plan", now, "", asset="plan"), *body, h(_FOOTER)]))


def _section(section: PlanSection) -> Markup:
    texts = len(section.headings) - section.figures
    head = joined(
        h('<th scope="col" class="{kind}">{name}</th>', kind="n" if place >= texts else "", name=name.capitalize())
        for place, name in enumerate(section.headings)
    )
    rows = joined(
        h("<tr>{cells}</tr>", cells=joined(_cell(text, is_figure=place >= texts) for place, text in enumerate(row)))
        for row in section.rows
    )
    return h(
        '<h2>{title}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
        title=section.title,
        head=head,
        rows=rows,
    )


def _cell(text: str, *, is_figure: bool) -> Markup:
    return h('<td class="{kind}">{text}</td>', kind="n" if is_figure else "", text=with_code(text))
