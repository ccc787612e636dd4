"""What people state for forecasts, and forecasts that are kept to be compared with what happens."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from transfers.models import Plan


def rate_state(*, plan: Plan, bytes_per_second: int | None, packed_percent: int | None, actor: Actor) -> None:
    """State what forecasts go by as long as nothing is measured; None takes a statement back.

    `bytes_per_second` is the link's goodput, `packed_percent` the size of archives after packing in per cent of before.
    Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.ORDER)
    if bytes_per_second is not None and not 0 < bytes_per_second < 2**62:
        raise ValidationError(_("A rate is a number of bytes a second above zero. Nothing was changed."))
    if packed_percent is not None and not 0 < packed_percent <= 200:
        raise ValidationError(_("The size after packing is between 1 and 200 per cent. Nothing was changed."))
    with transaction.atomic():
        now = Plan.objects.select_for_update().select_related("host").get(pk=plan.pk)
        before = {"bytes_per_second": now.stated_bytes_per_second, "packed_percent": now.stated_packed_percent}
        after = {"bytes_per_second": bytes_per_second, "packed_percent": packed_percent}
        if before == after:
            return
        now.stated_bytes_per_second, now.stated_packed_percent = bytes_per_second, packed_percent
        now.save(update_fields=["stated_bytes_per_second", "stated_packed_percent"])
        audit.record(
            act="plan.state_rate", actor=actor, subject=now, host=now.host, detail={"before": before, "after": after}
        )
