"""The day the product is not there: it fetches half, its script goes on, and it takes over what the script brought."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from calculet.audit.models import Event
from calculet.people.models import Person
from tests.hosts import host_make, resource_make
from tests.parts import find, need
from tests.sshd import Sshd
from tests.transfers import jobs
from tests.transfers.factories import PlannedHost
from transfers.engine.types import Finding
from transfers.ledger import RowLedger
from transfers.models import BandwidthLimit, BuildState, GoodputMinute, GoodputSample, Item, Pack, Plan
from transfers.selectors.specs import build_folder, landed_path
from transfers.services.links import link_run
from transfers.services.verification import open_run, verify_run

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]
MEBIBYTE = 2**20
CHUNKS = 9


def pause_after(chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody pauses every pack once so many chunks are proven."""
    record = RowLedger.record_chunk
    seen: list[int] = []

    def recorded(self: RowLedger, key: str, finding: Finding) -> None:
        record(self, key, finding)
        seen.append(1)
        if len(seen) == chunks:
            Pack.objects.update(is_paused=True)

    monkeypatch.setattr(RowLedger, "record_chunk", recorded)


def test_the_product_fetches_half_the_script_goes_on_and_the_product_takes_over(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("dash")
    jobs.landing_make(tmp_path / "home")
    archive = tmp_path / "base line's.img"
    archive.write_bytes(os.urandom(CHUNKS * MEBIBYTE - 5))
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, archive, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("baseline", "existing", [resource])), bob)
    Item.objects.update(chunk_bytes=MEBIBYTE)
    type(build).objects.update(chunk_bytes=MEBIBYTE)
    jobs.until_packed(build)
    with monkeypatch.context() as context:
        pause_after(3, context)
        limit = BandwidthLimit.objects.create(scope="far", host=host, bytes_per_second=3_000_000)
        link_run(host.pk)
        limit.delete()
    build.refresh_from_db()
    had = build.chunks.filter(proven_at__isnull=False).count()
    assert build.state == BuildState.FETCHING and 3 <= had < CHUNKS
    Pack.objects.update(is_paused=False)

    script, told = tmp_path / "go-on.sh", io.StringIO()
    call_command("export_plan", "far", "--script", "--to", str(script), "--as", "alice", stdout=told)
    assert "goes on with the fetch of baseline" in told.getvalue()
    environment = {"PATH": os.environ["PATH"], "KEY": str(sshd.key_path)}
    command = [str(find("dash")), str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert had <= done.stdout.count(b"is here\n") < CHUNKS
    folder = build_folder(build)
    subprocess.run(["sha256sum", "-c", "--strict", f"{archive.name}.incoming.sha256"], cwd=folder, check=True)

    wire_before = sum(GoodputSample.objects.values_list("wire_bytes", flat=True))
    link_run(host.pk)
    build.refresh_from_db()
    assert build.state == BuildState.RECEIVED, build.problem
    assert sum(GoodputSample.objects.values_list("wire_bytes", flat=True)) == wire_before  # nothing came twice
    verify_run(build.pk)
    open_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.OPENED, build.problem
    assert landed_path(build).read_bytes() == archive.read_bytes()


def test_what_a_link_brought_is_summed_by_minute_channel_and_lanes(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    archive = tmp_path / "base.img"
    archive.write_bytes(os.urandom(3 * MEBIBYTE))
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, archive, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("baseline", "existing", [resource])), bob)
    jobs.until_packed(build)
    link_run(host.pk)
    assert sum(GoodputMinute.objects.values_list("new_bytes", flat=True)) == 3 * MEBIBYTE
    assert set(GoodputMinute.objects.values_list("channel", flat=True)) == {host.channels.get().pk}
    assert all(minute.at.second == 0 and minute.lanes > 0 for minute in GoodputMinute.objects.all())
    assert not GoodputMinute.objects.filter(is_limited=True).exists()


def test_what_came_under_a_limit_is_summed_apart(sshd: Sshd, alice: Person, bob: Person, tmp_path: Path) -> None:
    jobs.landing_make(tmp_path / "home")
    archive = tmp_path / "base.img"
    archive.write_bytes(os.urandom(3 * MEBIBYTE))
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, archive, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("baseline", "existing", [resource])), bob)
    jobs.until_packed(build)
    BandwidthLimit.objects.create(scope="far", host=host, bytes_per_second=1_200_000)
    link_run(host.pk)
    held = sum(GoodputMinute.objects.filter(is_limited=True).values_list("new_bytes", flat=True))
    assert held > MEBIBYTE  # the last of it may come in a sample that is short of the limit


def test_the_script_is_taken_away_by_those_who_may_fetch_and_each_time_is_an_event(
    signed_in: SignedIn, alice: Person, bob: Person, tmp_path: Path
) -> None:
    lab = PlannedHost(alice, tmp_path)
    lab.add("packed", BuildState.PACKED, source_path=b"/var/tmp/staging/packed's.tar")
    lab.add("later", BuildState.PLANNED)
    lab.add("held", BuildState.PACKED, on_hold=True)
    lab.add("home", BuildState.OPENED)
    page, address = reverse("transfers:plan", args=["lab"]), reverse("transfers:plan-script", args=["lab"])
    assert signed_in(bob).post(address).status_code == 403
    assert address not in signed_in(bob).get(page).content.decode()
    client = signed_in(alice)
    assert address in client.get(page).content.decode()
    assert client.get(address).status_code == 405
    response = client.post(address)
    assert response.status_code == 200 and "attachment" in response["Content-Disposition"]
    text = response.content.decode()
    assert text.startswith("#!/bin/sh\n") and "Packs, in order: packed." in text
    for line in ("later is not packed on the host yet.", "held is on hold.", "home is here already."):
        assert f"# Not in it: {line}" in text
    assert text.count("\nbegin ") == 1 and text.count("\nchunk ") == 4
    event = Event.objects.order_by("-pk")[0]
    assert event.act == "plan.export_script" and json.loads(event.detail)["packs"] == ["packed"]


def test_without_a_pinned_key_or_anything_to_bring_no_script_is_made(alice: Person, tmp_path: Path) -> None:
    lab = PlannedHost(alice, tmp_path)
    lab.add("later", BuildState.PLANNED)
    with pytest.raises(CommandError, match="a script would be empty"):
        call_command("export_plan", "lab", "--script", "--as", "alice")
    lab.add("packed", BuildState.PACKED, source_path=b"/var/tmp/staging/packed.tar")
    lab.host.channels.get().host_keys.all().delete()
    with pytest.raises(CommandError, match="Pin its key first"):
        call_command("export_plan", "lab", "--script", "--as", "alice")
    assert Plan.objects.count() == 1 and not Event.objects.filter(act="plan.export_script").exists()
