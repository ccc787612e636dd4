"""A browser for tests: Chromium, driven by playwright; loaded as a plugin by tests/conftest.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from calculet.people.models import Person
from tests.conftest import PASSWORD
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


class SignIn:
    """Signs people in, each in a browser context of its own; `complaints` is what their pages complained about."""

    def __init__(self, browser: Browser, address: str, *, patience_ms: float | None, forgives: str) -> None:
        self._browser, self._address, self._patience_ms, self._forgives = browser, address, patience_ms, forgives
        self.complaints: list[str] = []

    def __call__(self, person: Person) -> Page:
        page = self._browser.new_context(locale="en", base_url=self._address).new_page()
        if self._patience_ms is not None:
            page.set_default_timeout(self._patience_ms)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto("/")
        page.get_by_label("Sign-in name").fill(person.username)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        return page

    def _note(self, said: ConsoleMessage) -> None:
        if said.type == "error" and not (self._forgives and self._forgives in said.text):
            self.complaints.append(said.text)


@contextmanager
def signing_in(
    browser: Browser, address: str, *, patience_ms: float | None = None, forgives: str = ""
) -> Iterator[SignIn]:
    """A way to sign people in. What a browser complains about fails the test, but for what holds `forgives`."""
    made = SignIn(browser, address, patience_ms=patience_ms, forgives=forgives)
    yield made
    assert not made.complaints
