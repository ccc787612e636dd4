"""What changed on the host since a pack was listed, and the act that puts a delta pack into the draft."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from calculet.http import PersonRequest, actor_of, back_to
from calculet.people.roles import Act, require
from transfers.models import Mode, Pack, RevisionState
from transfers.selectors.drifting import deltas_shown, drift_of, item_shown
from transfers.services import deltas
from transfers.services.plans import item_preview
from transfers.views.acts import REFUSALS, act_once, sentences_of
from transfers.views.find import pack_named

NAMES_SHOWN = 200


@require_POST
def delta_add(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """Put a delta pack of a pack into the plan's draft, and show what it would carry."""
    require(request.user, Act.PLAN_EDIT)
    row = pack_named(host, pack)
    try:
        item = act_once(request, lambda actor: deltas.delta_add(pack=row, actor=actor))
        # Outside the act's transaction: a list may have a million members.
        item_preview(item=item, actor=actor_of(request))
    except REFUSALS as error:
        for sentence in sentences_of(error):
            messages.error(request, sentence)
        return back_to(request, reverse("transfers:pack", args=[host, pack]))
    messages.success(
        request,
        _("%(delta)s is in the draft. It carries what was added and changed; %(pack)s stays as it is. Propose it next.")
        % {"delta": item.pack, "pack": row},
    )
    return redirect("transfers:item", host, item.pk)


def drift_context(pack: Pack) -> dict[str, Any]:
    """What a pack's page shows of its drift."""
    item = item_shown(pack)
    drift = drift_of(item)
    names = drift.names[:NAMES_SHOWN] if drift is not None else []
    is_in_force = item is not None and item.revision.state == RevisionState.APPROVED
    has_more = drift is not None and drift.to_bring > 0
    return {
        "drift": drift,
        "drift_names": names,
        "drift_more": drift.count - len(names) if drift is not None else 0,
        "deltas": deltas_shown(pack),
        "delta_of": item.delta_of if item is not None else None,
        "can_delta": is_in_force and has_more and item is not None and item.mode in (Mode.ARCHIVE, Mode.FILES),
    }
