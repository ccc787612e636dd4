"""The product's own processes under fire: whatever is killed, every byte is right and little is fetched twice."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.models import Sum

from calculet.actors import Actor
from calculet.audit.services import verify_chain
from calculet.people.models import Person
from inventory.models import Host
from tests.hosts import resource_make
from tests.live.product import Product, SlowHost, wait_until
from tests.transfers import jobs
from transfers.engine.cellmap import CellMap
from transfers.engine.geometry import Geometry, ledger_path
from transfers.models import Build, BuildState, Check, GoodputSample
from transfers.selectors.specs import build_spec, landed_path
from transfers.services.orders import pack_pause, pack_resume, packs_reorder

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.django_db(transaction=True)]

RATE = 5e6  # bytes a second of the host, all lanes together
SIZE_BYTES = 40_000_000
TAKES_EFFECT_SECONDS = 3.0 + 1.5  # what is promised, and the age of the figures that are looked at
LOST_AT_MOST_BYTES = 8 * 256 * 1024  # of eight lanes, besides what was in flight


@pytest.fixture
def slow_host(tmp_path: Path) -> Iterator[SlowHost]:
    server = SlowHost(tmp_path, bytes_per_second=RATE)
    yield server
    server.stop()


@pytest.fixture
def product(tmp_path: Path, transactional_db: None) -> Iterator[Product]:
    running = Product(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def host(slow_host: SlowHost, alice: Person) -> Host:
    return slow_host.host_make(alice)


def random_file(path: Path, size: int = SIZE_BYTES) -> str:
    """Make a file of random bytes on the host; returns its SHA-256."""
    content = os.urandom(size)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def approved(host: Host, author: Person, approver: Person, *paths: Path) -> list[Build]:
    """Packs of existing files, approved: from here on the product goes by itself."""
    resources = [resource_make(host, author, path, name=path.name, kind="archive") for path in paths]
    for resource in resources:
        jobs.scan(resource, author)
    packs = [(f"pack-{number}", "existing", [resource]) for number, resource in enumerate(resources, 1)]
    return jobs.approve(jobs.propose(host, author, *packs), approver)


def now(build: Build) -> Build:
    return Build.objects.get(pk=build.pk)


def here_bytes(build: Build) -> int:
    """What the ledger file on the disk says, read as the next owner would read it."""
    spec = build_spec(now(build))
    copy = shutil.copy(ledger_path(spec), spec.folder / "copy of the ledger")
    cells = CellMap(Path(copy), spec.key, Geometry(spec.chunks))
    try:
        return cells.here_bytes
    finally:
        cells.close()


def wait_for_bytes(product: Product, build: Build, count: int) -> None:
    wait_until(
        f"{count:,} bytes of {build} are here ({product.output.read_text()} {now(build).problem})",
        lambda: now(build).received_bytes >= count,
        seconds=60,
    )


def wait_opened(product: Product, build: Build) -> Build:
    def is_over() -> bool:
        return now(build).state in (BuildState.OPENED, BuildState.FAILED, BuildState.NEEDS_DECISION)

    try:
        wait_until(f"{build} is opened", is_over, seconds=90)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{now(build).state} {now(build).problem}\n{product.logs}") from error
    done = now(build)
    assert done.state == BuildState.OPENED, done.problem
    return done


def test_killed_workers_host_and_supervisor_cost_no_byte_and_little_time(
    product: Product, slow_host: SlowHost, host: Host, tmp_path: Path, alice: Person, bob: Person
) -> None:
    jobs.landing_make(tmp_path / "home")
    source = tmp_path / "weights.bin"
    digest = random_file(source)
    (build,) = approved(host, alice, bob, source)

    wait_for_bytes(product, build, 5_000_000)
    assert product.kill_workers("link") >= 2
    at_kill = here_bytes(build)
    samples_before = GoodputSample.objects.order_by("-pk").values_list("pk", flat=True).first() or 0

    wait_until("a new link brings more", lambda: now(build).received_bytes >= at_kill + 3_000_000, seconds=60)
    slow_host.kill()
    slow_host.start_again()
    wait_for_bytes(product, build, 18_000_000)
    product.kill()
    wait_until("the supervisor's children are gone", lambda: not product.processes("celery"), seconds=20)
    here = here_bytes(build)
    product.start_again()

    done = wait_opened(product, build)
    assert hashlib.sha256(landed_path(done).read_bytes()).hexdigest() == digest == done.sha256
    after = GoodputSample.objects.filter(pk__gt=samples_before).aggregate(new=Sum("new_bytes"), wire=Sum("wire_bytes"))
    # What was here at the first kill was not fetched again, whatever was killed after it.
    assert after["new"] <= SIZE_BYTES - at_kill
    assert after["wire"] - after["new"] <= 2 * LOST_AT_MOST_BYTES
    assert here >= 17_000_000
    assert not Check.objects.filter(build=done, outcome="differed").exists()
    verdict = verify_chain()
    assert verdict.whole, verdict


def test_pause_resume_and_reorder_take_effect_within_three_seconds(
    product: Product, host: Host, tmp_path: Path, alice: Person, bob: Person
) -> None:
    jobs.landing_make(tmp_path / "home")
    for name in ("one", "two"):
        random_file(tmp_path / name, 30_000_000)
    first, second = approved(host, alice, bob, tmp_path / "one", tmp_path / "two")
    actor = Actor.of(alice)
    wait_for_bytes(product, first, 2_000_000)

    ids = [first.pack_id, second.pack_id]
    packs_reorder(plan=first.pack.plan, pack_ids=ids[::-1], seen_ids=ids, actor=actor)
    began = now(second).received_bytes
    wait_until("the second pack moves", lambda: now(second).received_bytes > began, seconds=TAKES_EFFECT_SECONDS)

    before = now(first).received_bytes
    pack_pause(pack=second.pack, actor=actor)
    wait_until("the first pack moves again", lambda: now(first).received_bytes > before, seconds=TAKES_EFFECT_SECONDS)
    still = now(second).received_bytes
    wait_for_bytes(product, first, now(first).received_bytes + 4_000_000)
    assert now(second).received_bytes <= still + LOST_AT_MOST_BYTES

    pack_resume(pack=second.pack, actor=actor)
    wait_opened(product, first)
    wait_opened(product, second)


def test_a_landing_that_fills_waits_and_goes_on_when_there_is_room(
    product: Product, host: Host, tmp_path: Path, alice: Person, bob: Person
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(small)], check=True)
    try:
        jobs.landing_make(small)
        digest = random_file(tmp_path / "blob", 25_000_000)
        (build,) = approved(host, alice, bob, tmp_path / "blob")
        wait_until("the full disk is told", lambda: "bytes free" in now(build).problem, seconds=60)
        assert now(build).state == BuildState.FETCHING
        subprocess.run(["mount", "-o", "remount,size=80m", str(small)], check=True)
        done = wait_opened(product, build)
        assert hashlib.sha256(landed_path(done).read_bytes()).hexdigest() == digest
        assert done.problem == ""
    finally:
        product.stop()
        subprocess.run(["umount", str(small)], check=True)
