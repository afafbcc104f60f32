"""docs/page.png: the page while the demo runs, taken in a headless Chromium. Run it after the page has changed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parent.parent / "docs" / "page.png"
#: drawn by the processor where there is no GPU
WEBGL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
#: how long the trains run before the picture (milliseconds): by then the first minute, when plans are compiled, is over
LATER = 80_000


def main() -> None:
    command = [sys.executable, "-m", "godwit", "demo", "--seconds", "110", "--no-native"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    try:
        address = next(found[0] for line in demo.stdout if (found := re.search(r"http://[\d.:]+", line)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", *WEBGL]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="dark")
            page.goto(address)
            page.wait_for_timeout(LATER)
            page.keyboard.press("j")  # (the first query: its plan over the sites)
            page.wait_for_timeout(3_000)
            page.locator("nav").scroll_into_view_if_needed()
            page.evaluate("document.querySelector('.tab').scrollTop = 0")
            page.screenshot(path=TARGET)
            browser.close()
    finally:
        demo.terminate()
        demo.wait(60)


if __name__ == "__main__":
    main()
