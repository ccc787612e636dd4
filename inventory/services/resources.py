"""Writes about resources: naming what is worth something on a host, and changing what was said about it."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from calculet.audit.services import record
from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from inventory.models import Host, Resource, ResourceKind, SizeBasis, Tier
from inventory.remote.names import RemoteName
from inventory.services.errors import NameTaken, ValueWrong

SIZE_LIMIT_BYTES = 2**63 - 1
_KEEP: Any = object()  # “leave as it is”, where None is a value of its own


def resource_add(
    *,
    host: Host,
    name: str,
    path: RemoteName | str,
    kind: str,
    actor: Actor,
    tier: Tier | None = None,
    position: int | None = None,
    size_bytes: int | None = None,
    size_basis: str = SizeBasis.UNKNOWN,
    value: str = "",
    recommendation: str = "",
) -> Resource:
    """Name a resource of a host. An empty path means that it has no one place there; `position` None puts it last.

    Sizes in bytes; “exact” is for scans alone. Raises NotAllowed, ValueWrong, NameTaken.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    place = name_of(path)
    _refuse_values(name, place, kind, size_bytes, size_basis)
    try:
        with transaction.atomic():
            resource = Resource.objects.create(
                host=host,
                name=name,
                path=place,
                kind=kind,
                tier=tier,
                position=next_position(host, tier) if position is None else position,
                size_bytes=size_bytes,
                size_basis=size_basis,
                value=value,
                recommendation=recommendation,
            )
            detail = {"name": name, "path": place, "kind": kind, "tier": tier.position if tier is not None else None}
            record(act="resource.added", actor=actor, subject=resource, detail=detail)
    except IntegrityError as error:
        raise NameTaken("resource of this host", name) from error
    return resource


def resource_change(
    *,
    resource: Resource,
    actor: Actor,
    name: str | None = None,
    path: RemoteName | str | None = None,
    kind: str | None = None,
    tier: Tier | None = _KEEP,
    position: int | None = None,
    size_bytes: int | None = _KEEP,
    size_basis: str | None = None,
    value: str | None = None,
    recommendation: str | None = None,
) -> Resource:
    """Change what is given of a resource; what a scan measured can't be overwritten while the path stays.

    A new path forgets the measured size. No event is written when nothing differs. Raises NotAllowed, ValueWrong,
    NameTaken.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    with transaction.atomic():
        row = Resource.objects.select_for_update().get(pk=resource.pk)
        wanted: dict[str, Any] = {
            "name": name,
            "path": None if path is None else name_of(path),
            "kind": kind,
            "position": position,
            "value": value,
            "recommendation": recommendation,
        }
        changed: dict[str, Any] = {
            field: found for field, found in wanted.items() if found is not None and found != getattr(row, field)
        }
        if tier is not _KEEP and tier != row.tier:
            changed["tier"] = tier
        changed |= _size_changes(row, size_bytes, size_basis, is_moved="path" in changed)
        after: dict[str, Any] = {
            field: changed.get(field, getattr(row, field)) for field in ("name", "path", "kind", "size_bytes")
        }
        _refuse_values(**after, size_basis=changed.get("size_basis", row.size_basis), may_be_exact=True)
        if changed:
            detail = {field: {"from": getattr(row, field), "to": found} for field, found in changed.items()}
            _save(row, changed)
            record(act="resource.changed", actor=actor, subject=row, detail=detail)
    for field, found in changed.items():
        setattr(resource, field, found)
    return resource


def name_of(path: RemoteName | str) -> RemoteName:
    """A path as its bytes; what a person typed is taken literally."""
    try:
        return RemoteName.from_text(path) if isinstance(path, str) else path
    except ValueError as error:
        raise ValueWrong("path", _("%(error)s Nothing was changed.") % {"error": error}) from error


def next_position(host: Host, tier: Tier | None) -> int:
    """The position behind the last resource of a host's tier."""
    last = (
        Resource.objects.filter(host=host, tier=tier).order_by("-position").values_list("position", flat=True).first()
    )
    return 1 if last is None else last + 1


def _size_changes(row: Resource, size_bytes: int | None, size_basis: str | None, *, is_moved: bool) -> dict[str, Any]:
    """The size's new fields. A size measured by a scan stays until the path changes."""
    if row.size_basis == SizeBasis.EXACT and not is_moved:
        return {}
    was_exact = row.size_basis == SizeBasis.EXACT
    size = (None if was_exact else row.size_bytes) if size_bytes is _KEEP else size_bytes
    basis = size_basis if size_basis is not None else SizeBasis.UNKNOWN if was_exact else row.size_basis
    if basis == SizeBasis.EXACT:
        size, basis = None, SizeBasis.UNKNOWN
    wanted = {"size_bytes": size, "size_basis": str(basis)}
    return {field: found for field, found in wanted.items() if found != getattr(row, field)}


def _save(row: Resource, changed: dict[str, Any]) -> None:
    try:
        with transaction.atomic():
            Resource.objects.filter(pk=row.pk).update(**changed)
    except IntegrityError as error:
        raise NameTaken("resource of this host", str(changed.get("name", row.name))) from error


def _refuse_values(
    name: str, path: RemoteName, kind: str, size_bytes: int | None, size_basis: str, *, may_be_exact: bool = False
) -> None:
    if not name.strip() or len(name) > 120 or not name.isprintable():
        raise ValueWrong("name", _("A resource needs a name of up to 120 characters on one line. Nothing was changed."))
    if path.raw and not path.is_canonical:
        raise ValueWrong(
            "path",
            _(
                "“%(path)s” is not a plain absolute path. Nothing was changed. Begin with “/”, without “.”, “..”, “//” "
                "or a slash at its end; leave it empty for what has no one place."
            )
            % {"path": path},
        )
    if kind not in ResourceKind.values:
        raise ValueWrong(
            "kind",
            _("“%(kind)s” is no kind of resource. Nothing was changed. Choose one of the list.") % {"kind": kind},
        )
    if size_basis == SizeBasis.EXACT and not may_be_exact:
        raise ValueWrong(
            "size_basis", _("Only a scan makes a size exact. Nothing was changed. Say declared or about, or scan it.")
        )
    if (size_bytes is None) != (size_basis == SizeBasis.UNKNOWN):
        raise ValueWrong(
            "size_basis",
            _(
                "A size needs its basis, and a basis a size. Nothing was changed. Say whether the bytes are declared "
                "or about, or leave both out."
            ),
        )
    if size_bytes is not None and not 0 <= size_bytes <= SIZE_LIMIT_BYTES:
        raise ValueWrong(
            "size_bytes", _("%(count)s is no number of bytes. Nothing was changed.") % {"count": size_bytes}
        )
