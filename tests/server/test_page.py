"""The page in a real browser. Skipped where there is none (Debian: apt install chromium)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from godwit.api.fleet import Fleet
from godwit.ids import DeviceId, SiteId
from godwit.model.changes import DeviceMoved
from tests.server.conftest import TOPOLOGY, Running, tokens
from tests.server.test_api import SQL, declare, row
from tests.waiting import until

Serve = Callable[..., Running]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: drawn by the processor: machines that test have no GPU
WEBGL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *WEBGL])
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

        # it is opened: before and after
        expect(page.locator("#stories .moved").first).to_contain_text("device t1: west -> east", timeout=20_000)

        # results arrive live; the query is altered, and withdrawn
        page.get_by_role("tab", name="queries").click()
        page.locator("tr[data-query=delta]").click()
        expect(page.locator("#query-detail h2")).to_have_text("delta", timeout=20_000)
        for n, second in ((3, 1), (4, 15), (0, 40)):
            client.post("/v1/streams/passengers/rows", json=row(n, second))
        numbers = page.locator("#query-detail .results tbody td.n")
        expect(numbers.filter(has_text="3")).to_have_count(1, timeout=30_000)
        expect(page.locator("#query-detail .results thead")).to_contain_text("train")
        expect(page.locator("#newest")).to_contain_text("t1")
        expect(page.locator("#query-detail .instances")).to_contain_text("Aggregate")
        expect(page.locator("#query-detail .waits")).not_to_be_empty()
        page.locator("#query-detail .edit").click()
        expect(page.locator("#sql")).to_have_value(SQL)
        page.fill("#sql", SQL.replace("sum(boarded)", "max(boarded)"))
        page.click("#alter-if")
        expect(page.locator("#answer")).to_contain_text("cannot be altered", timeout=20_000)
        page.fill("#sql", SQL.replace("passengers GROUP", "passengers WHERE boarded > 1 GROUP"))
        page.click("#alter")
        expect(page.locator("#answer")).to_have_class("error", timeout=20_000)
        page.get_by_role("tab", name="queries").click()
        page.locator("#query-detail .withdraw").click()
        expect(page.locator("tr[data-query=delta]")).to_have_count(0, timeout=20_000)


FILTER = "SELECT train, boarded, ts FROM passengers WHERE boarded > 5 /* threshold */"


def test_a_query_is_altered_with_keys_alone(serve: Serve, open_page: Callable[[Running, str | None], Page]) -> None:
    server = serve()
    with server.client() as client:
        declare(client)
        client.post("/v1/queries", json={"name": "busy", "sql": FILTER})
        page = open_page(server, "operate")
        expect(page.locator("tr[data-query=busy]")).to_have_count(1, timeout=20_000)
        page.keyboard.press("j")
        expect(page.locator("#query-detail h2")).to_have_text("busy", timeout=20_000)
        page.keyboard.press("3")
        page.fill("#name", "busy")
        page.fill("#sql", "SET threshold = 7")
        page.click("#alter-if")
        expect(page.locator("#answer")).to_contain_text("can be altered", timeout=20_000)
        page.click("#alter")
        expect(page.locator("#answer")).to_contain_text("altered in epoch", timeout=20_000)
        assert "> 7" in client.get("/v1/queries/busy").json()["sql"]
        page.locator("#answer").click()
        page.keyboard.press("t")
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()


def test_a_dropped_connection_recovers(
    open_fleet: Callable[..., Fleet], open_page: Callable[[Running, str | None], Page]
) -> None:
    fleet = open_fleet()
    fleet.topology.load(TOPOLOGY)
    fleet.start()
    server = Running(fleet, tokens(), None)
    with server.client() as client:
        declare(client)
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT train, boarded, ts FROM passengers"})
    page = open_page(server, "operate")
    page.locator("tr[data-query=all]").click(timeout=20_000)
    expect(page.locator("#query-detail h2")).to_have_text("all", timeout=20_000)
    server.stop()
    expect(page.locator("#connection")).to_have_text("not connected", timeout=20_000)
    fleet.change([DeviceMoved(DeviceId("t1"), SiteId("east"))])  # (nobody is told)
    again = Running(fleet, tokens(), None, port=server.port)
    try:
        expect(page.locator("#connection")).to_have_text("live", timeout=20_000)
        page.get_by_role("tab", name="timeline").click()
        expect(page.locator("#stories")).to_contain_text("t1", timeout=20_000)
        page.get_by_role("tab", name="queries").click()
        with again.client() as client:

            def pushed() -> bool:
                client.post("/v1/streams/passengers/rows", json=row(3, 1)).raise_for_status()
                return "3" in page.locator("#query-detail .results tbody td.n").all_inner_texts()

            assert until(pushed)
    finally:
        again.stop()


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


COORDINATES = """
sites:
  - {id: west, region: edge-west, lat: 52.53, lon: 13.28}
  - {id: east, region: edge-east, lat: 52.51, lon: 13.47}
  - {id: cloud, region: cloud, lat: 52.5, lon: 13.38}
links: [{from: west, to: cloud}, {from: east, to: cloud}]
"""
#: pixels between where two things are drawn
APART = """([a, b]) => { const { drawn } = godwit.ground; if (!drawn.places.has("t1")) return 1e9;
  const [p, q] = [drawn.where(a), drawn.where(b)]; return Math.hypot(p.x - q.x, p.y - q.y); }"""


#: pixels by which a device's centre is below a site's: the largest; the site's name begins 13 pixels below it
BELOW = """(site) => { const { drawn } = godwit.ground;
  const there = [...drawn.at].filter(([, at]) => at === site).map(([device]) => drawn.where(device).y);
  return Math.max(...there) - drawn.where(site).y; }"""


#: the page's second look at the topology, thirty times
AGAIN = """async (token) => {
  const found = await fetch("/v1/topology", { headers: { Authorization: `Bearer ${token}` } });
  const topology = await found.json();
  for (let turn = 0; turn < 30; turn += 1) godwit.ground.show(topology);
}"""


def test_sites_with_coordinates_lie_on_a_map_and_devices_move_on_it(
    open_fleet: Callable[..., Fleet], open_page: Callable[[Running, str | None], Page]
) -> None:
    fleet = open_fleet()
    fleet.topology.load(COORDINATES)
    fleet.start()
    server = Running(fleet, tokens(), None)
    try:
        with server.client() as client:
            declare(client)
            client.post("/v1/queries", json={"name": "delta", "sql": SQL})
            page = open_page(server, "operate")
            faults: list[str] = []
            page.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
            expect(page.locator("#ground.map canvas")).to_be_visible(timeout=20_000)
            expect(page.locator("tr[data-query=delta]")).to_have_count(1, timeout=20_000)
            assert until(lambda: page.evaluate(APART, ["t1", "west"]) < 30)
            for number in range(2, 16):
                client.put(f"/v1/devices/t{number}", json={"site": "west", "streams": ["passengers"]})
            assert until(lambda: page.evaluate("godwit.ground.drawn.places.size") == 15)
            assert page.evaluate(BELOW, "west") < 8, "a device covers the name of its site"
            at, box = page.evaluate("godwit.ground.drawn.where('west')"), page.locator("#ground").bounding_box()
            assert box is not None

            def told() -> bool:  # (what was just set is drawn a moment later)
                page.mouse.click(box["x"] + at["x"], box["y"] + at["y"])
                page.wait_for_timeout(200)
                return page.locator("#selected").inner_text() == "site west in region edge-west at 52.53, 13.28"

            assert until(told)
            client.post("/v1/changes", json={"changes": ["device t1 -> east"]})
            assert until(lambda: page.evaluate(APART, ["t1", "east"]) < 30)
            page.keyboard.press("j")
            assert until(lambda: page.evaluate("godwit.ground.drawn.marked.size") > 0)
            page.keyboard.press("t")
            page.keyboard.press("f")
            page.evaluate(AGAIN, "operate")  # a browser keeps 16 contexts of WebGL
            assert not page.evaluate("godwit.ground.drawn.map.painter.context.gl.isContextLost()")
            assert faults == []
    finally:
        server.stop()
