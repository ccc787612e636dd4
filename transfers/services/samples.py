"""Samples of packing: a few beginnings of files, compressed on the host, say about what a list will come to."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.leases.services import LeaseTaken, lease_acquire, lease_hold, lease_release
from calculet.lifecycle import SYSTEM, Actor, advance
from calculet.people.roles import Act, require
from inventory.connect import installation_marker, open_remote
from inventory.models import Host
from inventory.remote.base import PermanentError, Remote, TransientError
from inventory.remote.shell import quote
from inventory.remote.staging import ensure_staging
from inventory.selectors import known_report
from transfers.engine.packing import StagingPlaces
from transfers.engine.sampling import SampleResult, sample_list, take_sample
from transfers.models import EntryList, Item, Mode, PackingSample, SampleState
from transfers.selectors.specs import list_members

log = logging.getLogger(__name__)


def sample_lease_name(sample_id: int) -> str:
    """The lease of one sample."""
    return f"sample:{sample_id}"


def sample_request(*, item: Item, actor: Actor) -> PackingSample:
    """Ask for a sample of an item's list; one that waits or was taken is returned.

    Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.PLAN_EDIT)
    host = item.revision.plan.host
    if item.entry_list is None or item.mode != Mode.ARCHIVE:
        raise ValidationError(
            _("Only an archive that was previewed has something to take a sample of. Preview “%(pack)s” first.")
            % {"pack": item.pack.name}
        )
    with transaction.atomic():
        sample, is_new = PackingSample.objects.get_or_create(
            entry_list=item.entry_list, defaults={"host": host, "requested_by": actor.user}
        )
        detail = {"list": item.entry_list.digest}
        if is_new:
            audit.record(act="sample.ask", actor=actor, subject=sample, host=host, detail=detail)
        elif sample.state == SampleState.FAILED:
            advance(sample, SampleState.QUEUED, act="sample.ask", actor=actor, detail=detail, problem="")
    return sample


def sample_run(sample_id: int) -> None:
    """Take a sample that was asked for. Safe to run twice."""
    held = lease_acquire(name=sample_lease_name(sample_id))
    if held is None:
        return
    try:
        rows = PackingSample.objects.select_related("host", "entry_list")
        sample = rows.filter(pk=sample_id, state=SampleState.QUEUED).first()
        if sample is None:
            return
        to, fields = SampleState.FINISHED, {}
        try:
            result = _take(sample)
            fields = _figures(result)
        except (TransientError, PermanentError) as error:
            to, fields = SampleState.FAILED, {"problem": str(error)}
        with transaction.atomic():
            lease_hold(held)
            advance(sample, to, act=f"sample.{to}", actor=SYSTEM, detail=dict(fields), **fields)
    except LeaseTaken as taken:
        log.info("%s", taken)
    finally:
        lease_release(held)


def _take(sample: PackingSample) -> SampleResult:
    """Raises RemoteError."""
    host, members = sample.host, list(list_members(sample.entry_list))
    probe = known_report(host)
    if probe is not None and not probe.has_zstd:
        total = sum(member.size_bytes for member in members)
        return SampleResult(total, total)  # a plain .tar is made
    places = StagingPlaces(host.staging_path, f"sample-{sample.pk}", 0)
    remote: Remote = open_remote(host)
    try:
        ensure_staging(remote, host.staging_path, installation_marker())
        remote.write_file(places.list_of("sample"), sample_list(members))
        try:
            return take_sample(remote, places)
        finally:
            remote.run(b"rm -f -- %b\n" % quote(places.list_of("sample").raw), step="remove the list of a sample")
    finally:
        remote.close()


def sample_known(entry_list: EntryList) -> SampleResult | None:
    """What an earlier sample of the list found."""
    found = PackingSample.objects.filter(entry_list=entry_list, state=SampleState.FINISHED).first()
    return SampleResult(found.raw_bytes, found.packed_bytes, found.zstd_seconds) if found is not None else None


def sample_keep(*, entry_list: EntryList, host: Host, result: SampleResult) -> None:
    """Keep what packing's own sample found; called in the transaction of that step."""
    values = {"state": SampleState.FINISHED, **_figures(result)}
    PackingSample.objects.get_or_create(entry_list=entry_list, defaults={"host": host, **values})


def _figures(result: SampleResult) -> dict[str, Any]:
    return {
        "raw_bytes": result.raw_bytes,
        "packed_bytes": result.packed_bytes,
        "zstd_seconds": result.zstd_seconds,
    }
