"""Where packs arrive."""

from __future__ import annotations

import re

from django.conf import settings
from django.db import IntegrityError, transaction

from calculet.audit import services as audit
from calculet.lifecycle import SYSTEM
from transfers.models import Landing

_FROM_SETTINGS = re.compile(r"landing(-\d+)?")


def landing_default() -> Landing:
    """The landing that new builds go to: the one that the settings name, unless another one was chosen.

    When the setting changes, later builds go to the new folder; what landed before is still known where it lies.
    """
    found = Landing.objects.filter(is_default=True).first()
    if found is not None and (not _FROM_SETTINGS.fullmatch(found.name) or found.path == str(settings.LANDING_DIR)):
        return found
    try:
        with transaction.atomic():
            Landing.objects.filter(is_default=True).update(is_default=False)
            known = Landing.objects.filter(path=str(settings.LANDING_DIR)).first()
            if known is not None:
                Landing.objects.filter(pk=known.pk).update(is_default=True)
                return known
            count = Landing.objects.count()
            name = f"landing-{count + 1}" if count else "landing"
            made = Landing.objects.create(name=name, path=str(settings.LANDING_DIR), is_default=True)
            audit.record(act="landing.add", actor=SYSTEM, subject=made, detail={"path": made.path})
            return made
    except IntegrityError:  # another process was faster
        return Landing.objects.get(is_default=True)
