"""Where packs arrive."""

from __future__ import annotations

from django.conf import settings
from django.db import IntegrityError, transaction

from calculet.audit import services as audit
from calculet.lifecycle import SYSTEM
from transfers.models import Landing


def landing_default() -> Landing:
    """The landing that new builds go to; made from the settings when there is none yet."""
    found = Landing.objects.filter(is_default=True).first()
    if found is not None:
        return found
    try:
        with transaction.atomic():
            made = Landing.objects.create(name="landing", path=str(settings.LANDING_DIR), is_default=True)
            audit.record(act="landing.add", actor=SYSTEM, subject=made, detail={"path": made.path})
            return made
    except IntegrityError:  # another process was faster
        return Landing.objects.get(is_default=True)
