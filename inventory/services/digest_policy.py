"""Digests by policy: what a host's or a resource's policy asks for by itself, once a scan has finished."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, Subquery
from django.utils.translation import gettext as _

from calculet.audit.services import record
from calculet.lifecycle import SYSTEM, Actor
from calculet.people.roles import Act, require
from inventory.models import DigestPolicy, DigestRun, Host, Resource, Scan, ScanState
from inventory.selectors import UNDER_WAY, has_no_shell, policy_of
from inventory.services.errors import ValueWrong

_ASKING = (DigestPolicy.OVER, DigestPolicy.ALL)


def host_policy_set(*, host: Host, policy: str, over_bytes: int | None, actor: Actor) -> Host:
    """Set the policy of a host's resources that have none of their own. Raises NotAllowed, ValueWrong."""
    require(actor.user, Act.SCAN)
    if policy not in DigestPolicy.values:
        raise ValueWrong("policy", _("“%(policy)s” is no policy. Nothing was changed.") % {"policy": policy})
    with transaction.atomic():
        detail = _set(host, policy, over_bytes)
        record(act="host.digest_policy", actor=actor, subject=host, detail=detail)
    return host


def resource_policy_set(*, resource: Resource, policy: str, over_bytes: int | None, actor: Actor) -> Resource:
    """Set a resource's own policy; empty: that of its host. Raises NotAllowed, ValueWrong."""
    require(actor.user, Act.SCAN)
    if policy and policy not in DigestPolicy.values:
        raise ValueWrong("policy", _("“%(policy)s” is no policy. Nothing was changed.") % {"policy": policy})
    with transaction.atomic():
        detail = _set(resource, policy, over_bytes)
        record(act="resource.digest_policy", actor=actor, subject=resource, detail=detail)
    return resource


def _set(row: Host | Resource, policy: str, over_bytes: int | None) -> dict[str, object]:
    size = over_bytes if policy == DigestPolicy.OVER else None
    if policy == DigestPolicy.OVER and not size:
        raise ValueWrong("over_bytes", _("Say from which size on, in bytes. Nothing was changed."))
    detail: dict[str, object] = {"from": [row.digest_policy, row.digest_over_bytes], "to": [policy, size]}
    type(row)._base_manager.filter(pk=row.pk).update(digest_policy=policy, digest_over_bytes=size)
    row.digest_policy, row.digest_over_bytes = policy, size
    return detail


def digests_ask_due() -> list[int]:
    """Ask for the digests of each latest scan whose policy wants some and that nobody asked for; returns the runs.

    One run a scan: what it could not read is not tried again before the next scan. Hosts without a shell are passed
    over.
    """
    finished = Scan.objects.filter(resource=OuterRef("pk"), state=ScanState.FINISHED)
    latest = Subquery(finished.order_by("-finished_at", "-pk").values("pk")[:1])
    by_host = Q(digest_policy="", host__digest_policy__in=_ASKING)
    ruled = Resource.objects.filter(Q(digest_policy__in=_ASKING) | by_host)
    if not ruled.exists():  # asked at each tick, and true nearly everywhere
        return []
    wanted = ruled.annotate(latest_id=latest)
    asked = DigestRun.objects.filter(Q(scan=OuterRef("latest_id")) | Q(resource=OuterRef("pk"), state__in=UNDER_WAY))
    wanted = wanted.filter(~Exists(asked), latest_id__isnull=False).select_related("host")
    runs = (_ask(resource, resource.latest_id) for resource in wanted)
    return [run for run in runs if run is not None]


def _ask(resource: Resource, scan_id: int) -> int | None:
    if has_no_shell(resource.host):
        return None
    policy, over_bytes = policy_of(resource)
    try:
        with transaction.atomic():
            run = DigestRun.objects.create(
                host=resource.host, resource=resource, scan_id=scan_id, over_bytes=over_bytes
            )
            detail = {"scan": scan_id, "policy": policy, "over_bytes": over_bytes}
            record(act="digests.asked", actor=SYSTEM, subject=run, host=resource.host, detail=detail)
    except IntegrityError:  # a person was faster
        return None
    return run.pk
