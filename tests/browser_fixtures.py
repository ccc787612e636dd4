"""A browser for tests: Chromium, driven by playwright; loaded as a plugin by tests/conftest.py."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.parts import find, need


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A Chromium of its own, closed afterwards."""
    need("chromium")
    # Its driver's event loop runs in this thread, where Django would take every query for one in a coroutine.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=find("chromium"), args=["--no-sandbox"])
            yield chromium
            chromium.close()
    finally:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
