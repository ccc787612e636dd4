"""`manage.py verify_audit`: prove the audit chain, or name its first broken link."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from calculet.audit.chain import LineWrong, Link, links_read, verify
from calculet.audit.services import links_in_order, verify_chain


class Command(BaseCommand):
    help = "Walk the audit chain. Exit status 0 when it is whole, 1 with the first broken link when it is not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--export", metavar="FILE", help="check an exported file in place of the database")
        parser.add_argument(
            "--head", metavar="HASH", help="also require that the chain holds this hash, written down some time before"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        export: str | None = options["export"]
        head = str(options["head"] or "").lower()
        try:
            verdict = verify_chain() if export is None else verify(_exported(export))
            found = not head or any(link.hash == head for link in (_exported(export) if export else links_in_order()))
        except OSError as error:
            raise CommandError(f"The export “{export}” cannot be read ({error.strerror}). Check its name.") from error
        except LineWrong as error:
            raise CommandError(str(error)) from error
        if not verdict.whole:
            raise CommandError(str(verdict))
        if not found:
            raise CommandError(
                f"The audit chain holds in itself, but none of its events has the hash {head}: it was cut before that "
                "event, or written anew. Compare it with a backup or an export of that time."
            )
        self.stdout.write(str(verdict))


def _exported(name: str) -> Iterator[Link]:
    with Path(name).open(encoding="utf-8", errors="replace") as lines:
        yield from links_read(lines)
