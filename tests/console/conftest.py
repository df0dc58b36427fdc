"""The browser: Debian's chromium-headless-shell, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from tests.console.site import Site, Tab, tab

CHROMIUM = shutil.which("chromium-headless-shell")
NO_SANDBOX = ["--no-sandbox"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium-headless-shell: apt-get install --no-install-recommends chromium-headless-shell")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Any other name leads to this machine, as with DNS rebinding.
        args = [*NO_SANDBOX, "--host-resolver-rules=MAP *.example 127.0.0.1"]
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield found
        found.close()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.close()


@pytest.fixture
def open_tab(site: Site, browser: Any) -> Callable[..., AbstractContextManager[Tab]]:
    return partial(tab, site, browser)
