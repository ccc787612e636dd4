"""What an approval binds to: one digest over everything that a revision would bring home."""

from __future__ import annotations

import hashlib

from calculet.audit.chain import canonical_json
from inventory.remote.names import escape
from transfers.models import Revision


def revision_digest(revision: Revision) -> str:
    """SHA-256 of what an approval is of: each pack's mode, cut, resources, rules, explicit list, and the list of what
    it leaves to other packs.

    Execution order, pause and hold are operators' acts and are left out.
    """
    content = [
        {
            "pack": item.pack.name,
            "mode": item.mode,
            "chunk_bytes": item.chunk_bytes,
            "resources": sorted(item.resources.values_list("name", flat=True)),
            "include": item.include_rules,
            "exclude": item.exclude_rules,
            "names": [escape(item.stretch.first), escape(item.stretch.end)],
            "list": item.entry_list.digest if item.entry_list else "",
            "satisfied": item.satisfied_list.digest if item.satisfied_list else "",
            "here": item.here_list.digest if item.here_list else "",
            "delta_of": item.delta_of.name if item.delta_of else "",
        }
        for item in revision.items.select_related(
            "pack", "entry_list", "satisfied_list", "here_list", "delta_of"
        ).order_by("pack__name")
    ]
    host = revision.plan.host.name
    return hashlib.sha256(canonical_json({"host": host, "items": content}).encode("ascii")).hexdigest()
