"""The main job as a person sees it, in Chromium: sign in, approve, watch the states, take the report away."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from calculet.people.models import Person
from tests.browser_fixtures import signing_in
from tests.hosts import resource_make
from tests.live.product import Product, SlowHost, wait_until
from tests.transfers import jobs
from transfers.models import Report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.live,
    pytest.mark.timeout(300),
    pytest.mark.django_db(transaction=True),
]

PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def product(tmp_path: Path, transactional_db: None) -> Iterator[Product]:
    running = Product(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def page_of(browser: Browser, product: Product) -> Iterator[Callable[[Person], Page]]:
    """A signed-in page of a person. What the browser complains about fails the test."""
    with signing_in(browser, product.address, patience_ms=PATIENCE_MS) as sign_in:
        yield sign_in


@pytest.fixture
def slow_host(tmp_path: Path) -> Iterator[SlowHost]:
    server = SlowHost(tmp_path, bytes_per_second=3e6)
    yield server
    server.stop()


def test_a_pack_is_approved_watched_and_its_report_taken_away(
    page_of: Callable[[Person], Page], slow_host: SlowHost, alice: Person, bob: Person, tmp_path: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    host = slow_host.host_make(alice)
    source = tmp_path / "weights.bin"
    source.write_bytes(os.urandom(20_000_000))
    resource = resource_make(host, alice, source, name="weights", kind="parameters")
    jobs.scan(resource, alice)
    jobs.propose(host, alice, ("weights", "existing", [resource]))

    approver = page_of(bob)
    approver.get_by_role("link", name="Plan", exact=True).click()
    approver.goto(approver.url.rstrip("/") + f"/{host.name}/revisions/1/")
    approver.get_by_role("button", name="Approve").click()
    expect(approver.get_by_text("in force").first).to_be_visible()

    page = page_of(alice)
    page.get_by_role("navigation").get_by_role("link", name="Transfers").click()
    row = page.get_by_role("row", name="weights")
    expect(row.get_by_text("fetching")).to_be_visible()
    expect(row.get_by_text("opened")).to_be_visible()  # the page refreshes itself

    row.get_by_role("link", name="weights", exact=True).click()
    expect(page.get_by_role("heading", name="Chunks")).to_be_visible()
    expect(page.locator("#main")).to_contain_text("proven")
    wait_until("the report is made", lambda: Report.objects.exists(), seconds=20)
    page.get_by_role("navigation").get_by_role("link", name="Evidence").click()
    page.locator("#main").get_by_role("link", name="Report").first.click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the folder").click()
    with zipfile.ZipFile(download.value.path()) as folder:
        names = {Path(name).name for name in folder.namelist()}
        assert {"SHA256SUMS", "chunks.sha256", "members.sha256", "report.json", "report.html"} <= names
        assert folder.testzip() is None
