"""Writing plan files: what `inventory.manifests.planfile` reads back as the same plan."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML

from inventory.manifests.planlines import CHUNK_BYTES, PackLine, PlanFile, ResourceLine
from inventory.manifests.sizes import format_size
from inventory.remote.names import RemoteName

VERSION = 1


def write_plan_file(plan: PlanFile) -> bytes:
    """The plan as a file that `read_plan_file` reads back equal. Fields without a value are left out."""
    whole: dict[str, Any] = {
        "version": VERSION,
        "clear_by": plan.clear_by.isoformat() if plan.clear_by is not None else None,
        "stated": _filled(rate=_size(plan.stated_bytes_per_second), packed_percent=plan.stated_packed_percent),
        "tiers": [_filled(position=tier.position, name=tier.name, note=tier.note) for tier in plan.tiers],
        "resources": [_resource_fields(resource) for resource in plan.resources],
        "packs": [_pack_fields(pack) for pack in plan.packs],
        "capabilities": [
            {
                **_filled(name=capability.name, description=capability.description),
                "needs": [group[0] if len(group) == 1 else {"any": list(group)} for group in capability.needs],
            }
            for capability in plan.capabilities
        ],
    }
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 2**20
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel annotates its initial None
    written = io.BytesIO()
    yaml.dump({name: value for name, value in whole.items() if value}, written)
    return written.getvalue()


def _filled(**values: Any) -> dict[str, Any]:
    """Fields that have a value."""
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _resource_fields(resource: ResourceLine) -> dict[str, Any]:
    size = resource.size_bytes
    return _filled(
        name=resource.name,
        path=_written_path(resource.path),
        kind=resource.kind,
        tier=resource.tier,
        size=None
        if size is None
        else {resource.size_basis: format_size(size) if resource.size_basis == "about" else size},
        value=resource.value,
        recommendation=resource.recommendation,
    )


def _written_path(path: RemoteName | None) -> str | dict[str, str] | None:
    """Plain text where that is the path's bytes and can be seen; else the escaped form."""
    if path is None:
        return None
    shown = str(path)
    is_plain = shown.encode() == path.raw and shown == shown.strip()
    return shown if is_plain else {"escaped": shown}


def _pack_fields(pack: PackLine) -> dict[str, Any]:
    return _filled(
        name=pack.name,
        aim=pack.aim,
        mode=pack.mode,
        resources=list(pack.resources),
        include=list(pack.include),
        exclude=list(pack.exclude),
        chunk=None if pack.chunk_bytes == CHUNK_BYTES else format_size(pack.chunk_bytes),
        hold=(pack.hold_reason or "on hold") if pack.on_hold else None,
        until=_until(pack),
        leave_out=[
            word for word, is_so in (("carried", pack.leaves_out_carried), ("here", pack.leaves_out_here)) if is_so
        ],
        **{"from": _bound(pack.first_name), "before": _bound(pack.end_name)},
        delta_of=pack.delta_of,
        came_of=list(pack.came_of),
    )


def _until(pack: PackLine) -> dict[str, Any] | None:
    at = pack.hold_until_at.isoformat() if pack.hold_until_at is not None else None
    return _filled(at=at, rest="yes" if pack.hold_until_rest else None, rate=_size(pack.hold_until_rate)) or None


def _size(count: int | None) -> str | None:
    return None if count is None else format_size(count)


def _bound(name: bytes) -> str | dict[str, str] | None:
    return _written_path(RemoteName(b"/" + name)) if name else None
