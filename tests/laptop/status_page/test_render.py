"""The status page as HTML: what a person reads, whatever the names are, and without anything from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from dedp_assets.laptop.status_page.details import render_details
from dedp_assets.laptop.status_page.drawing import STATES, legend, strip
from dedp_assets.laptop.status_page.model import Affected, Cell, Page, ShownTrouble, TableRow
from dedp_assets.laptop.status_page.render import render
from dedp_assets.patterns.core.names import printable
from tests.helpers import NOW
from tests.laptop.status_page.pages import DAYS, PAGE, details

HOSTILE = "<script>alert(1)</script>\"'&{x}{0}%s${y}`--><!-- \x00\x1b\ud800 é"
TOLD = printable(HOSTILE)
"""A trouble has texts of whole characters."""
VOID = {"meta", "link", "br", "path", "rect"}


class Read(HTMLParser):
    """A document as a browser reads it: texts, tags and attributes; tags that do not match are an error."""

    def __init__(self, document):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(document.encode("utf-8").decode("utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def hostile_page():
    """A page on which every text from outside is hostile."""
    told = dict.fromkeys(("kind", "table", "partition", "figure", "limit", "reason", "command", "explained_by"), TOLD)
    trouble = ShownTrouble(**told, since=NOW, affected=Affected((HOSTILE,), (HOSTILE,), (HOSTILE,)))
    cell = Cell(HOSTILE, "refused", 1, HOSTILE)
    table = replace(
        PAGE.tables[4], name=HOSTILE, owner=HOSTILE, used_by=HOSTILE, newest=HOSTILE, strip=(cell,),
        upstream=(HOSTILE,), rows=(replace(PAGE.tables[4].rows[0], label=HOSTILE),),
    )  # fmt: skip
    return Page(NOW, (trouble, replace(trouble, severity="info")), (table,), (HOSTILE,), "http://127.0.0.1:3000")


@pytest.mark.parametrize("document", [render(hostile_page()), render_details(details(HOSTILE, hostile_page()))])
def test_hostile_names_stay_texts(document):
    """No tag, no attribute and no template comes of them; what UTF-8 or HTML has no place for is replaced."""
    read = Read(document)
    assert "script" not in read.tags
    assert "<script>alert(1)</script>\"'&{x}{0}%s${y}" in read.text
    assert not {"\x00", "\x1b"} & {*document}
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]


@pytest.mark.parametrize(
    "document",
    [render(PAGE), render(PAGE, served=False), render(Page(NOW)), render_details(details("silver/visits"))],
    ids=["served", "file", "empty", "details"],
)
def test_nothing_is_loaded_from_elsewhere(document):
    """No script, no style sheet, no picture, no font; tags match."""
    read = Read(document)
    assert not {"script", "img", "iframe", "object"} & {*read.tags}
    loaded = [value for tag, name, value in read.attributes if name in ("src", "href") and tag != "a"]
    assert all(value.startswith("data:image/svg+xml,") for value in loaded)
    assert "url(" not in document
    assert "@import" not in document


def test_a_page_without_trouble_says_so_in_one_line():
    """Also while updates are under way."""
    for page in (replace(PAGE, troubles=()), replace(PAGE, troubles=PAGE.under_way)):
        text = Read(render(page)).text
        assert "No trouble: 9 tables with data, none needs anybody." in text
        assert "critical" not in text.partition("Tables")[0]


def test_a_trouble_says_what_since_when_why_who_is_affected_and_what_helps():
    """In this order, the worst trouble first."""
    text = Read(render(PAGE)).text
    told = [
        "6 troubles in 6 tables",
        "1 late, 1 refused, 1 over budget, 1 skewed, 1 stale, 1 lagging.",
        "✕ critical late: bronze/visits 184 min at most 60 min since 09:00 UTC, 3 h",
        "nothing has arrived since the delivery of 06:00",
        "Helps dedp status bronze/visits",
        "Affects silver/visits ; then gold/daily_visitors",
        "Used by dashboards of marketing (gold/sessions)",
        f"! warning refused: silver/visits {DAYS[-2]} since 08:40 UTC, 3 h",
        "skewed: silver/users",
        "since 2026-01-19 08:00 UTC, 1 d 4 h",
        "Because of bronze/visits",
        "1 update under way, nobody needed yet",
    ]
    found = [text.find(part) for part in told]
    assert -1 not in found, told[found.index(-1)]
    assert found == sorted(found)


def test_notices_say_what_could_not_be_looked_at():
    """Above the troubles, which are shown all the same."""
    text = Read(render(replace(PAGE, notices=("Dagster's run history cannot be read: gone",)))).text
    assert text.index("Dagster's run history cannot be read: gone") < text.index("late: bronze/visits")


def test_each_state_has_words_and_a_form_of_its_own():
    """Colours are not the only sign: titles say day, state, rows and reason, and no two states are drawn alike."""
    cells = [Cell(f"day {state}", state, 5, "why") for state in STATES]
    drawn = Read(strip(cells, lambda _: ""))
    assert drawn.texts == [f"day {state}: {words}, 5 rows. why" for state, words in STATES.items()]
    label = next(value for _, name, value in drawn.attributes if name == "aria-label")
    assert label == "6 partitions from day ok to day empty: " + ", ".join(f"1 {words}" for words in STATES.values())
    forms = [str(strip([Cell("k", state)], lambda _: "")).partition("</title>")[2] for state in STATES]
    plain = {form.replace(f"s-{state}", "") for form, state in zip(forms, STATES, strict=True)}
    assert len(plain) == len(STATES)
    assert all(words in legend() for words in STATES.values())


def test_a_file_has_no_links_to_a_server():
    """Links to Dagster stay, which is a server of its own."""
    links = {value for tag, name, value in Read(render(PAGE, served=False)).attributes if (tag, name) == ("a", "href")}
    assert links == {"http://127.0.0.1:3000"}
    assert "http-equiv" not in render(PAGE, served=False)
    served = {value for tag, name, value in Read(render(PAGE)).attributes if (tag, name) == ("a", "href")}
    assert {"/table/silver/visits", f"/table/silver/visits#{DAYS[0]}"} <= served


def test_tables_without_data_share_a_line():
    """So that a new home shows what is there; one that is waited for has a line of its own."""
    blank = [TableRow(name=f"gold/{name}", verdict="empty") for name in "ab"]
    waited = TableRow(name="gold/c", verdict="empty", strip=(Cell("2026-01-01", "missing"),))
    text = Read(render(Page(NOW, (), (*blank, waited)))).text
    assert "No data yet: gold/a , gold/b" in text
    assert "gold/c no data yet" in text


def test_the_page_of_a_table_lists_partitions_commits_cost_and_lineage():
    """With the troubles upstream under a heading of their own, and links to Dagster's runs and partitions."""
    read = Read(render_details(details("silver/visits")))
    told = ["refused: silver/visits", "Troubles upstream", "late: bronze/visits", "Lineage", "Reads bronze/visits",
            "Partitions", "behind its upstream", "Cost by day", "12.40", "Last commits", "00000000"]  # fmt: skip
    found = [read.text.find(part) for part in told]
    assert -1 not in found, told[found.index(-1)]
    assert found == sorted(found)
    links = [value for tag, name, value in read.attributes if (tag, name) == ("a", "href")]
    assert "http://127.0.0.1:3000/runs/00000000-0000" in links
    assert f"http://127.0.0.1:3000/assets/silver/visits?view=partitions&partition={DAYS[0]}" in links
    ids = {value for _, name, value in read.attributes if name == "id"}
    assert {f"#{key}" for key in ids} >= {link for link in links if link.startswith("#")}


def test_a_page_of_many_tables_stays_small():
    """A hundred tables with thirty partitions each: less than a picture, so that it opens at once."""
    tables = tuple(replace(PAGE.tables[4], name=f"gold/table_{number}") for number in range(100))
    assert len(render(replace(PAGE, tables=tables))) < 2_500_000


def test_the_time_of_the_page_is_on_it():
    """With its zone."""
    later = replace(PAGE, made_at=NOW + timedelta(hours=13))
    assert "at 2026-01-21 01:00:00 UTC" in Read(render(later)).text
