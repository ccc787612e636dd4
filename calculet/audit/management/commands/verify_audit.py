"""`manage.py verify_audit`: prove the audit chain, or name its first broken link."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from calculet.audit.anchors import (
    AnchorFileWrong,
    AnchorLine,
    KeyWrong,
    Signature,
    anchors_read,
    links_noting,
    public_key_text,
    signature_state,
    verdict_against,
)
from calculet.audit.chain import LineWrong, Link, Verdict, links_read, time_text, verify, verify_part
from calculet.audit.exports import links_from_csv
from calculet.audit.services import links_in_order, verify_chain
from calculet.audit.walks import anchors_here


class Command(BaseCommand):
    help = (
        "Walk the audit chain, and compare it with its anchors. Exit status 0 when it is whole, 1 with the first fault "
        "when it is not."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--export", metavar="FILE", help="check an exported file in place of the database")
        parser.add_argument(
            "--part", action="store_true", help="the exported file is a part of the log, as a filter makes it"
        )
        parser.add_argument(
            "--head", metavar="HASH", help="also require that the chain holds this hash, written down some time before"
        )
        parser.add_argument(
            "--anchors",
            metavar="FILE",
            help="compare with this copy of the anchor file (default without --export: the installation's own)",
        )
        parser.add_argument(
            "--public-key",
            metavar="FILE",
            action="append",
            default=[],
            help="require that each anchor is signed with this Ed25519 key; may be given several times",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        export: str | None = options["export"]
        head = str(options["head"] or "").lower()
        anchors = _anchors(options["anchors"], is_export=export is not None)
        keys = [_public_key(name) for name in options["public_key"]]
        if keys:
            _require_signed(anchors, keys)
        if options["part"] and (export is None or anchors or head):
            raise CommandError("--part goes with --export, and a part is compared with neither anchors nor a head.")
        seen: dict[int, str] = {}
        try:
            verdict = verify_part(_exported(str(export))) if options["part"] else _walked(export, anchors, seen)
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
        if options["part"]:
            self.stdout.write(
                f"Each of the {verdict.links:,} events of this part holds. What lies between, it cannot say."
            )
            return
        self.stdout.write(str(verdict))
        if anchors:
            self.stdout.write(
                f"It holds what its {len(anchors):,} anchors say, the last of {time_text(anchors[-1].at)}."
            )


def _walked(export: str | None, anchors: list[AnchorLine], seen: dict[int, str]) -> Verdict:
    links = links_in_order() if export is None else _exported(export)
    noted = links_noting(links, anchors, seen)
    return verdict_against(verify_chain(noted) if export is None else verify(noted), anchors, seen)


def _anchors(name: str | None, *, is_export: bool) -> list[AnchorLine]:
    try:
        if name is None:
            return [] if is_export else anchors_here()
        return anchors_read(Path(name))
    except AnchorFileWrong as error:
        raise CommandError(str(error)) from error


def _public_key(name: str) -> str:
    try:
        return public_key_text(Path(name).read_bytes())
    except OSError as error:
        raise CommandError(f"The public key “{name}” cannot be read ({error.strerror}). Check its name.") from error
    except KeyWrong as error:
        raise CommandError(f"The public key “{name}” cannot be used: {error}.") from error


def _require_signed(anchors: list[AnchorLine], keys: list[str]) -> None:
    for anchor in anchors:
        state = signature_state(anchor, keys)
        if state is not Signature.GOOD:
            raise CommandError(
                f"The anchor of {time_text(anchor.at)}, event {anchor.sequence}, is not proven by the key: {state}. "
                "Somebody may have changed the file; compare it with another copy."
            )


def _exported(name: str) -> Iterator[Link]:
    with Path(name).open(encoding="utf-8", errors="replace", newline="") as lines:
        yield from links_from_csv(lines) if name.lower().endswith(".csv") else links_read(lines)
