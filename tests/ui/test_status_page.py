"""The status page in a browser: what a person reads in light and in dark, on a phone and in print.

A real Chromium does it, the one of the machine. ``DEDP_PICTURES=docs/pictures`` keeps the pictures.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from dedp_assets.laptop.status_server import Pages, serve_pages
from tests.fixtures import answering
from tests.helpers import NOW
from tests.laptop.status_page.pages import DAYS, PAGE, Source
from tests.ui.up import CHROMIUM

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.budget(60, "a browser of its own"),
]
LEAST_CONTRAST = 4.5
CONTRAST = """() => {
  const linear = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const found = parse(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('main *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest('svg')) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(parse(style.color)), luminance(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), element.className + ' ' + element.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Shown:
    """A server of one page and a browser that looks at it."""

    def __init__(self, browser, url):
        self.browser, self.url, self.complaints = browser, url, []

    def open(self, path="/", *, scheme="light", width=1280, picture=""):
        """Open a page; complaints of the browser are kept, and a picture if somebody wants pictures."""
        page = self.browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self.complaints.append(request.url))
        page.goto(self.url + path)
        if picture and (folder := os.environ.get("DEDP_PICTURES")):  # noqa: TID251
            page.screenshot(path=f"{folder}/{picture}.png", full_page=True)
        return page


@pytest.fixture
def shown(browser, request):
    """By default the page with troubles of every kind; no complaint of the browser is left at the end."""
    pages = Pages(lambda: Source(getattr(request, "param", PAGE)), lambda: NOW)
    with answering(serve_pages(pages), lifespan="off") as url:
        made = Shown(browser, url)
        yield made
    assert made.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_troubles_are_read_at_a_glance(shown, scheme):
    """Number, kinds, the worst one first with all that helps; each text has the contrast that guidelines ask for."""
    page = shown.open(scheme=scheme, picture=f"status_{scheme}")
    assert page.title() == "6 troubles - status"
    assert page.get_by_text("6 troubles in 6 tables").is_visible()
    first = page.locator(".trouble").first.inner_text()
    for text in ("critical", "late: bronze/visits", "184 min", "since 09:00 UTC, 3 h", "dedp status bronze/visits"):
        assert text in first
    assert "gold/daily_visitors" in first
    faint = [(ratio, what) for ratio, what in page.evaluate(CONTRAST) if ratio < LEAST_CONTRAST]
    assert faint == []
    colours = {page.evaluate("getComputedStyle(document.body).backgroundColor")}
    assert colours == {"rgb(246, 247, 249)" if scheme == "light" else "rgb(18, 22, 28)"}


def test_updates_under_way_unfold_and_a_partition_leads_to_its_line(shown):
    """By a click on its cell, without any script."""
    page = shown.open()
    missing = page.get_by_text("bronze/visits changed at version 31; the reconciler asks for it").first
    assert not missing.is_visible()
    page.get_by_text("1 update under way").click()
    assert missing.is_visible()
    page.locator(f'svg.strip a[href="/table/silver/visits#{DAYS[28]}"]').click()
    page.wait_for_url(f"**/table/silver/visits#{DAYS[28]}")
    assert page.locator("tr:target").inner_text().split("\t")[:2] == [DAYS[28], "refused"]


def test_the_page_of_a_table_is_complete_in_the_dark(shown):
    """Troubles upstream, partitions, cost and commits; back to all tables by a link."""
    page = shown.open("/table/silver/visits", scheme="dark", picture="status_table")
    for text in ("Troubles upstream", "Lineage", "Partitions", "Cost by day", "Last commits"):
        assert page.get_by_role("heading", name=text).is_visible()
    assert [each for each in page.evaluate(CONTRAST) if each[0] < LEAST_CONTRAST] == []
    page.get_by_role("link", name="All tables").click()
    assert page.get_by_text("6 troubles in 6 tables").is_visible()


def test_a_phone_needs_no_sideways_scrolling(shown):
    """Tables become blocks; the strip fits."""
    for path in ("/", "/table/silver/visits"):
        page = shown.open(path, width=360, picture="status_phone" if path == "/" else "")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, path
    assert shown.open(width=360).locator("svg.strip").first.bounding_box()["width"] <= 340


def test_it_prints_on_paper(shown):
    """Dark ink on white, without links to servers in the head."""
    page = shown.open(scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_role("link", name="Dagster").is_visible()
    assert len(page.pdf(format="A4")) > 10_000


@pytest.mark.parametrize("shown", [replace(PAGE, troubles=())], indirect=True)
def test_a_quiet_morning_is_one_line(shown):
    """Then the tables follow at once."""
    page = shown.open(picture="status_quiet")
    assert page.title() == "No trouble - status"
    assert page.get_by_text("No trouble: 9 tables with data, none needs anybody.").is_visible()
    assert page.locator(".trouble").count() == 0
    assert page.get_by_role("heading", name="Tables").bounding_box()["y"] < 250
