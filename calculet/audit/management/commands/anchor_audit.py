"""`manage.py anchor_audit`: write the head of the audit chain to the anchor file now, beside the daily ones."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from calculet.audit.anchoring import AnchoringElsewhere, ChainBroken, anchor_now, line_of
from calculet.leases.services import LeaseTaken
from calculet.people.commands import machine_actor


class Command(BaseCommand):
    help = (
        "Walk the audit chain, and anchor its head: in the anchor file, and by webhook and mail where these are set. "
        "Exit status 1 when the chain does not hold or the anchor could not be delivered everywhere."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            anchor = anchor_now(actor=machine_actor())
        except (ChainBroken, AnchoringElsewhere, LeaseTaken) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(str(line_of(anchor)))
        if anchor.unsigned_because or anchor.problem:
            told = " ".join(filter(None, (anchor.unsigned_because, anchor.problem)))
            raise CommandError(f"The anchor was made, but not everything went well. {told}")
