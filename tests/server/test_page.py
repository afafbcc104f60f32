"""The page in a real browser. Skipped where there is none (Debian: apt install chromium)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.server.conftest import Running
from tests.server.test_api import SQL, declare, row

Serve = Callable[..., Running]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[[Running, str | None], Page]]:
    contexts = []

    def open_(server: Running, token: str | None) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        contexts.append(context)
        if token:
            context.add_init_script(f"sessionStorage.setItem('godwit-token', '{token}')")
        page = context.new_page()
        page.on("pageerror", lambda error: pytest.fail(f"an error on the page: {error}"))
        page.goto(server.url)
        return page

    yield open_
    for context in contexts:
        context.close()


def test_the_page_follows_a_fleet_and_changes_it(
    serve: Serve, open_page: Callable[[Running, str | None], Page]
) -> None:
    server = serve()
    with server.client() as client:
        declare(client)
        page = open_page(server, "operate")
        expect(page.locator("#connection")).to_have_text("live", timeout=20_000)
        expect(page.locator("#device-count")).to_have_text("1")

        # a query is explained, refused, submitted
        page.get_by_role("tab", name="ask and change").click()
        page.fill("#name", "delta")
        page.fill("#sql", "SELECT nothing FROM passengers")
        page.click("#submit")
        expect(page.locator("#answer")).to_contain_text("nothing", timeout=20_000)
        expect(page.locator("#answer")).to_have_class("error")
        page.fill("#sql", SQL)
        page.click("#explain")
        expect(page.locator("#answer")).to_contain_text("columns: train string", timeout=20_000)
        page.click("#submit")
        expect(page.locator("#answer")).to_contain_text("runs since epoch", timeout=20_000)

        # a hand-over appears on the graph and on the timeline
        page.fill("#change", "device t1 -> east")
        page.click("#what-if")
        expect(page.locator("#answer")).to_contain_text("epoch", timeout=20_000)
        page.click("#apply")
        expect(page.locator("#answer")).to_contain_text("changed in epoch", timeout=20_000)
        page.get_by_role("tab", name="timeline").click()
        expect(page.locator("#stories li").first).to_contain_text("t1", timeout=20_000)
        page.locator("#stories summary").first.click()
        expect(page.locator("#stories pre").first).to_contain_text("publish")

        # results arrive live; the query is withdrawn
        page.get_by_role("tab", name="queries").click()
        page.locator("tr[data-query=delta]").click()
        expect(page.locator("#query-detail h2")).to_have_text("delta", timeout=20_000)
        for n, second in ((3, 1), (4, 15), (0, 40)):
            client.post("/v1/streams/passengers/rows", json=row(n, second))
        expect(page.locator("#query-detail .results")).to_contain_text('"n":3', timeout=30_000)
        page.locator("#query-detail .withdraw").click()
        expect(page.locator("tr[data-query=delta]")).to_have_count(0, timeout=20_000)


def test_a_token_without_rights_is_turned_away(serve: Serve, open_page: Callable[[Running, str | None], Page]) -> None:
    server = serve()
    page = open_page(server, "read")
    expect(page.locator("#connection")).to_have_text("live", timeout=20_000)
    page.get_by_role("tab", name="ask and change").click()
    page.fill("#change", "device t1 -> east")
    page.click("#apply")
    expect(page.locator("#answer")).to_contain_text("needs 'operate'", timeout=20_000)
    page = open_page(server, None)
    expect(page.locator("#login")).to_be_visible(timeout=20_000)
    page.fill("#token", "read")
    page.get_by_role("button", name="use it").click()
    expect(page.locator("#connection")).to_have_text("live", timeout=20_000)
