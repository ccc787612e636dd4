"""What is seen to before a pack is put into a draft."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.utils.translation import gettext as _

from inventory.models import Resource
from transfers.models import Mode, Revision
from transfers.rules import RuleError, Rules

LARGEST_CHUNK_BYTES = 1024 * 2**20


def patterns_of(lines: Sequence[str]) -> list[str]:
    """The lines that say something."""
    return [line.strip() for line in lines if line.strip()]


def need_item_makes_sense(
    revision: Revision,
    pack_name: str,
    mode: str,
    resources: Sequence[Resource],
    include: list[str],
    exclude: list[str],
    chunk_bytes: int,
) -> None:
    """Raises ValidationError with a sentence for each field that is wrong."""
    wrong: dict[str, str] = {}
    try:
        validate_slug(pack_name)
    except ValidationError:
        wrong["pack_name"] = _("A pack's name may hold letters, digits, “-” and “_” only; it names a folder at home.")
    if len(pack_name) > 100:
        wrong["pack_name"] = _("A pack's name may be 100 characters long at most.")
    if mode not in Mode.values:
        wrong["mode"] = _("“%(mode)s” is no mode. Choose one of: %(modes)s.") % {
            "mode": mode,
            "modes": ", ".join(Mode.values),
        }
    if not resources:
        wrong["resources"] = _("Choose at least one resource.")
    for resource in resources:
        if resource.host_id != revision.plan.host_id:
            wrong["resources"] = _("“%(name)s” lies on another host.") % {"name": resource.name}
    try:
        Rules(include, exclude)
    except RuleError as error:
        wrong["include_rules"] = str(error)
    if not 2**20 <= chunk_bytes <= LARGEST_CHUNK_BYTES or chunk_bytes % 2**20:
        wrong["chunk_bytes"] = _("A chunk has a whole number of MiB, from 1 to 1024.")
    if wrong:
        raise ValidationError(wrong)
