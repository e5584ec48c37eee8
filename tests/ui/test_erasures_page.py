"""The forms of requests to erase persons in a browser, which names the page that a form is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dedp_assets.graph.erasure.cases import CasePlace, Cases
from dedp_assets.laptop.servers.secured_http import LOCKED
from dedp_assets.laptop.status_server import Pages, serve_pages
from tests.fixtures import answering
from tests.helpers import NOW
from tests.laptop.status_page.pages import PAGE, Source
from tests.ui.up import CHROMIUM

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.budget(60, "a browser of its own"),
]
PLANNED = CasePlace("silver/users", "table", 3, "open", "3 of 40 rows")


def behind_a_lock(application):
    """An application as behind a door whose token every client has shown."""

    async def call(scope, receive, send):
        await application({**scope, "state": {**scope.get("state", {}), LOCKED: True}}, receive, send)

    return call


@pytest.fixture
def cases(tmp_path):
    return Cases.of(tmp_path)


@pytest.fixture
def page(cases):
    """The status page of a server in a browser, which complains of nothing."""
    from playwright.sync_api import sync_playwright

    pages = Pages(lambda: Source(replace(PAGE, kinds=("email", "user"))), lambda: NOW)
    made = behind_a_lock(serve_pages(pages, lambda: cases))
    with answering(made, lifespan="off") as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown, complaints = browser.new_page(), []
        shown.on("console", lambda message: complaints.append(message.text))
        shown.goto(url)
        yield shown
        browser.close()
    assert complaints == []


def test_a_person_asks_by_the_page_and_another_approves(page, cases):
    """From the link of the index on; the report shows each state, and no page or address the id."""
    page.get_by_text("Requests to erase persons").click()
    page.get_by_label("Kind of person").select_option("user")
    page.get_by_label("Id").fill("user-4711-canary")
    page.get_by_label("Request").fill("GDPR-17")
    page.get_by_role("button", name="Ask").click()
    assert page.url.endswith("/erasures/GDPR-17")
    assert "asked, to be planned" in page.inner_text("main")
    assert "canary" not in page.content()
    asked = cases.case("GDPR-17")
    assert cases.ids(asked) == {"user": ["user-4711-canary"]}
    cases.keep(replace(asked, places=(PLANNED,)))
    page.reload()
    assert "3 of 40 rows" in page.inner_text("main")
    page.get_by_label("Name of who approves").fill("legal")
    page.get_by_role("button", name="Approve, and erase").click()
    assert "approved, under way" in page.inner_text("main")
    assert cases.case("GDPR-17").approved_by == "legal"
