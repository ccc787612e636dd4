"""`manage.py export_audit FILE`: the whole audit log as JSON lines that anybody can check."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from calculet.audit.services import EXPORTED, export_lines, record
from calculet.people.commands import machine_actor


class Command(BaseCommand):
    help = (
        "Write every audit event as one line of JSON; the record of the export is the last. docs/operations.md says "
        "how to check a file without this program."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a file that is not there yet, or - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["file"]
        if name != "-" and Path(name).exists():
            raise CommandError(f"“{name}” is there already. Nothing was written. Choose another name.")
        with transaction.atomic():
            last = record(act=EXPORTED, actor=machine_actor(), detail={"to": name}).sequence
        if name == "-":
            sys.stdout.writelines(export_lines(last))
            return
        try:
            with open(name, "x", encoding="ascii", opener=_private) as file:
                file.writelines(export_lines(last))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CommandError(
                f"The export “{name}” cannot be written ({error.strerror}). What was written of it is not complete; "
                "the log itself is as it was. Choose a place with room that this account may write to."
            ) from error
        self.stdout.write(f"{last:,} events were written to {name}.")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
