"""Chromium as a fixture, for tests that read pages as a person does: from disk, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDE, PHONE = (1280, 900), (390, 844)
_SECONDS = 20


@pytest.fixture(name="browser", scope="module")
def chromium_browser() -> Iterator[Any]:
    """Return Chromium, driven by Playwright."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on the path; install one, such as Debian's package chromium")
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright; see `make browser`")
    with driver.sync_playwright() as playwright:
        unconfined = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium confines no process of root's
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=unconfined)
        yield chromium
        chromium.close()


@pytest.fixture(name="open_page")
def page_opener(browser: Any) -> Iterator[Any]:
    """Return a function that opens a page of a size; a script that fails or asks for what is not on disk fails."""
    asked: list[str] = []
    faults: list[str] = []
    contexts = []

    def opened(size: tuple[int, int] = WIDE, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * _SECONDS)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert asked and not [url for url in asked if not url.startswith("file:")]
    assert not faults
