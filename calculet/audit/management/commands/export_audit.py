"""`manage.py export_audit FILE`: the whole audit log as JSON lines or CSV that anybody can check."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from calculet.audit.exports import Form, export_record, pieces
from calculet.audit.filters import Filter
from calculet.people.commands import machine_actor


class Command(BaseCommand):
    help = (
        "Write every audit event as one line of JSON, or of CSV for a name that ends with .csv; the record of the "
        "export is the last. docs/operations.md says how to check a file without this program."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a file that is not there yet, or - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["file"]
        if name != "-" and Path(name).exists():
            raise CommandError(f"“{name}” is there already. Nothing was written. Choose another name.")
        form = Form.CSV if name.lower().endswith(".csv") else Form.JSON_LINES
        last = export_record(actor=machine_actor(), wanted=Filter(), form=form, to=name)
        if name == "-":
            sys.stdout.writelines(pieces(last, form=form))
            return
        try:
            with open(name, "x", encoding="utf-8", newline="", opener=_private) as file:
                file.writelines(pieces(last, form=form))
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
