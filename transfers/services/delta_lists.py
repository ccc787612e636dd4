"""What a delta pack carries: of what its rules give, that which the pack before it does not hold as it is now."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from inventory.remote.names import escape
from transfers.engine.listdrift import list_drift
from transfers.engine.types import Member
from transfers.models import Item, Pack
from transfers.selectors.drifting import deltas_of, digests_now, held_by, is_coarse

_REMOVED_NAMED = 5


def delta_members(item: Item, pack: Pack, members: Sequence[Member]) -> tuple[list[Member], tuple[str, ...]]:
    """The added and changed ones of `members` beside what `pack` and its earlier delta packs hold in the same revision,
    and a sentence about what is there no more.

    Raises ValidationError when that pack is not in the revision, or holds everything as it is.
    """
    rows = item.revision.items.filter(pack=pack).exclude(entry_list=None)
    base = rows.select_related("pack", "entry_list", "satisfied_list", "here_list").first()
    if base is None:
        raise ValidationError(
            _(
                "Pack “%(delta)s” brings what changed in pack “%(pack)s”, which is not in this draft or was not "
                "previewed. Add that one first, or take this one out."
            )
            % {"delta": item.pack.name, "pack": pack.name}
        )
    resources = list(item.resources.all())
    held = held_by(base, deltas_of(pack, item.revision_id, before=item.position))
    has_digests = any(member.sha256 is not None for member in held.members.values())
    drifts = list(
        list_drift(
            held.members,
            members,
            digests=digests_now(resources) if has_digests else {},
            touched=held.touched,
            whole_seconds=is_coarse(resources),
        )
    )
    kept = [drift.after for drift in drifts if drift.after is not None]
    if not kept:
        raise ValidationError(
            _(
                "Pack “%(pack)s” holds everything as the latest scan found it, so pack “%(delta)s” would be empty. "
                "Take it out of the draft."
            )
            % {"delta": item.pack.name, "pack": pack.name}
        )
    return kept, _removed_words(pack, [drift.name for drift in drifts if drift.what == "removed"])


def _removed_words(pack: Pack, names: Sequence[bytes]) -> tuple[str, ...]:
    if not names:
        return ()
    shown = ", ".join(f"“{escape(b'/' + name)}”" for name in names[:_REMOVED_NAMED])
    words = ngettext(
        "%(count)s path of pack “%(pack)s” is not on the host any more; its copy here stays: %(names)s%(more)s",
        "%(count)s paths of pack “%(pack)s” are not on the host any more; their copies here stay: %(names)s%(more)s",
        len(names),
    )
    more = ", …" if len(names) > _REMOVED_NAMED else ""
    return (words % {"count": f"{len(names):,}", "pack": pack.name, "names": shown, "more": more},)
