"""manage.py link_doctor HOST: examine a host's link now, keep what was found, and say what would help."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError

from calculet.people.commands import actor_of_command, add_as_argument
from inventory.models import Host
from transfers.models import ExaminationState
from transfers.services.examinations import examination_request, examination_run


class Command(BaseCommand):
    help = (
        "Examine a host's link: round trip, loss, congestion window and rate of one connection, disks, clock, and "
        "advice in sentences. It may run while the link fetches."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="the host's name")
        parser.add_argument("--json", action="store_true", help="print facts, history and advice as one JSON object")
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor = actor_of_command(options)
        host = Host.objects.filter(name=options["host"]).first()
        if host is None:
            raise CommandError(
                f"There is no host called “{options['host']}”. Nothing was changed. Add it with add_host."
            )
        try:
            row = examination_request(host=host, actor=actor)
        except PermissionDenied as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        examination_run(row.pk)
        row.refresh_from_db()
        if row.state != ExaminationState.FINISHED:
            raise CommandError(row.problem or "The examination was ended before its time; a worker goes on with it.")
        if options["json"]:
            found = {"host": host.name, "facts": row.facts, "history": row.history, "advice": row.advice}
            self.stdout.write(json.dumps(found))
            return
        self.stdout.write("\n".join(one["sentence"] for one in row.advice))
