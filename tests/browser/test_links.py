"""A link as an operator drives it, in Chromium on the running product: a trial over a kill -9, a limit changed live."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from calculet.leases.models import Lease
from calculet.leases.services import LEASE_SILENCE_SECONDS
from calculet.people.models import Person
from inventory.models import Host
from tests.browser_fixtures import signing_in
from tests.hosts import resource_make
from tests.live.product import Product, SlowHost, wait_until
from tests.transfers import jobs
from transfers.models import Build, GoodputSample, LaneSetting, Trial, TrialBlock, TrialState
from transfers.services.links import link_lease_name

pytestmark = [
    pytest.mark.browser,
    pytest.mark.live,
    pytest.mark.timeout(300),
    pytest.mark.django_db(transaction=True),
]

PATIENCE_MS = 60_000
RATE = 1_500_000.0
SIZE = 90_000_000


@pytest.fixture
def product(tmp_path: Path, transactional_db: None) -> Iterator[Product]:
    running = Product(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def slow_host(tmp_path: Path) -> Iterator[SlowHost]:
    server = SlowHost(tmp_path, bytes_per_second=RATE)
    yield server
    server.stop()


@pytest.fixture
def page(browser: Browser, product: Product, alice: Person) -> Iterator[Page]:
    """Alice's page. What the browser complains about fails the test."""
    expect.set_options(timeout=PATIENCE_MS)
    with signing_in(browser, product.address, patience_ms=PATIENCE_MS) as sign_in:
        yield sign_in(alice)


def _rate_lately(seconds: int) -> float:
    rows = list(GoodputSample.objects.order_by("-at").values_list("new_bytes", "seconds")[:seconds])
    return sum(row[0] for row in rows) / max(0.1, sum(row[1] for row in rows))


def test_a_trial_is_watched_to_its_result_and_a_limit_is_changed_while_bytes_come(
    page: Page, product: Product, slow_host: SlowHost, alice: Person, bob: Person, tmp_path: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    host = slow_host.host_make(alice)
    source = tmp_path / "weights.bin"
    source.write_bytes(os.urandom(SIZE))
    resource = resource_make(host, alice, source, name="weights", kind="parameters")
    jobs.scan(resource, alice)
    jobs.approve(jobs.propose(host, alice, ("weights", "existing", [resource])), bob)
    _trial(page, product, host)
    _limit(page, host.name)
    build = Build.objects.get()
    assert build.state == "fetching" and not build.problem, build.problem


def _done_blocks() -> dict[int, int]:
    return dict(TrialBlock.objects.filter(done_at__isnull=False).values_list("position", "new_bytes"))


def _trial(page: Page, product: Product, host: Host) -> None:
    page.goto(reverse("transfers:link", args=[host.name]))
    page.get_by_label("Numbers of lanes").fill("1 2")
    page.get_by_label("Minutes for each of them").fill("0.05")
    page.get_by_role("button", name="Start a trial").click()
    expect(page.get_by_role("heading", name="compares 1 and 2 lanes")).to_be_visible()
    page.get_by_role("link", name="Watch the trial").click()
    expect(page.locator("ol.blocks .done").first).to_be_visible()  # the page refreshes itself
    assert product.kill_workers("link") > 0
    done = _done_blocks()
    assert done and Trial.objects.get().state == TrialState.RUNNING
    silent_since = timezone.now() - timedelta(seconds=LEASE_SILENCE_SECONDS + 1)
    Lease.objects.filter(name=link_lease_name(host.pk)).update(heartbeat_at=silent_since)
    expect(page.locator(".state.finished")).to_be_visible()
    expect(page.locator("#answer")).to_contain_text("lanes")
    expect(page.get_by_role("table").first).to_contain_text("95 % interval")
    expect(page.locator(".chart .interval")).to_have_count(2)
    after = _done_blocks()
    assert len(after) == 10 and all(after[position] == brought for position, brought in done.items())
    page.get_by_role("button", name="Keep 2 lanes").click()
    expect(page.get_by_text("2 lanes are used from now on.")).to_be_visible()
    assert LaneSetting.objects.get().level == 2


def _limit(page: Page, host: str) -> None:
    limit = page.locator("#limit")
    assert _rate_lately(5) > 0.6 * RATE
    limit.get_by_label("Limit at all hours").fill("2 Mbit/s")
    limit.get_by_role("button", name="Set this limit").click()
    expect(page.locator("#live .figures")).to_contain_text("2.0 Mbit/s")
    wait_until("the limit holds", lambda: 150_000 < _rate_lately(3) < 300_000, seconds=15)
    limit.get_by_label("Limit at all hours").fill("")
    limit.get_by_role("button", name="Set this limit").click()
    expect(page.locator("#live .figures")).to_contain_text("no limit")
    wait_until("the limit is lifted", lambda: _rate_lately(2) > 0.5 * RATE, seconds=15)
