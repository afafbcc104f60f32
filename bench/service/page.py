"""The page with many devices and queries in a headless browser: frames per second while devices move, and memory."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psutil

DEVICES, QUERIES, SECONDS, FRAMES, MEGABYTES = 500, 50, 10.0, 20, 200
COUNT = """(seconds) => new Promise((done) => {
  const began = performance.now(); let frames = 0, worst = 0, last = began;
  const one = (now) => { frames += 1; worst = Math.max(worst, now - last); last = now;
    now - began < 1000 * seconds ? requestAnimationFrame(one) : done([frames / ((now - began) / 1000), worst]); };
  requestAnimationFrame(one); })"""


def _prepare(http: httpx.Client) -> None:
    lines = [f"device p{n} added at {('west', 'cloud')[n % 2]}" for n in range(DEVICES)]
    http.post("/v1/changes", json={"changes": lines}).raise_for_status()
    for n in range(QUERIES):
        sql = f"SELECT device, n, ts FROM readings WHERE n > {n}"
        http.post("/v1/queries", json={"name": f"page{n:02d}", "sql": sql}).raise_for_status()


def _move(http: httpx.Client, over: threading.Event) -> None:
    turn = 0
    while not over.wait(0.25):
        sites = ("west", "cloud")
        lines = [f"device p{n} -> {sites[(n + turn) % 2]}" for n in range(turn % 50, DEVICES, 50)]
        http.post("/v1/changes", json={"changes": lines})
        turn += 1


def _renderer_mb() -> float:
    """What the renderer of the page holds for itself (shared libraries do not count)."""
    found = [p for p in psutil.process_iter(["cmdline"]) if "--type=renderer" in (p.info["cmdline"] or [])]
    return max((p.memory_full_info().uss / 1e6 for p in found), default=0.0)


#: what is drawn -> the browser's flags: without WebGL the page draws a graph, and there is no GPU here
FLAGS = {
    "map": ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    "graph": ("--disable-3d-apis",),
}


def _looked_at(url: str, program: str, drawn: str, devices: int) -> tuple[float, float, float]:
    """(frames per second, longest frame in milliseconds, megabytes of the renderer), once all devices are there"""
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *FLAGS[drawn]])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(url)
        expect(page.locator("#device-count")).to_have_text(str(devices), timeout=60_000)
        page.wait_for_selector(f"#ground.{drawn}")
        time.sleep(2)
        rate, worst = page.evaluate(COUNT, SECONDS)
        memory = _renderer_mb()
        browser.close()
    return rate, worst, memory


def figures(url: str, already: int) -> Iterator[dict[str, Any]]:
    """`already`: devices that the fleet has besides."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        return
    over = threading.Event()
    with httpx.Client(base_url=url, timeout=120) as http, httpx.Client(base_url=url, timeout=120) as other:
        _prepare(http)
        mover = threading.Thread(target=_move, args=(other, over), daemon=True)
        mover.start()
        found = {drawn: _looked_at(url, program, drawn, already + DEVICES) for drawn in FLAGS}
        over.set()
        mover.join(30)
    for drawn, (rate, worst, memory) in found.items():
        note = f"{DEVICES} devices, 40 moves per second, {QUERIES} queries; longest frame {worst:.0f} ms; no GPU"
        yield {
            "experiment": f"service/page_{drawn}_frames_per_s", "ours": round(rate, 1), "target": FRAMES,
            "met": rate >= FRAMES, "note": note,
        }  # fmt: skip
        yield {
            "experiment": f"service/page_{drawn}_memory_mb", "ours": round(memory, 1), "target": MEGABYTES,
            "met": 0 < memory < MEGABYTES, "note": "the page's renderer process, without what it shares with others",
        }  # fmt: skip
