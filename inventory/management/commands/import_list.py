"""`manage.py import_list FILE --host NAME --resource NAME`: see what a list says, and with `--yes` import it."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from calculet.lifecycle import StateConflict
from calculet.people.commands import actor_of_command, add_as_argument
from inventory.management.found import host_named
from inventory.manifests.bagit import read_bag
from inventory.manifests.formats import READABLE
from inventory.manifests.lists import ListError
from inventory.manifests.mtree import write
from inventory.remote.names import RemoteName, escape
from inventory.services import list_imports
from inventory.services.errors import InventoryError


class Command(BaseCommand):
    help = "Take in a checksum file, a listing or a bag's folder as what a resource holds. Without --yes it only shows."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the list, or the folder of a BagIt bag")
        parser.add_argument("--host", required=True, help="the host's name")
        parser.add_argument("--resource", required=True, help="the resource's name; made when there is none")
        parser.add_argument("--root", default="", help="the folder on the host that the names lie below")
        parser.add_argument("--format", default="", choices=["", *(one.name for one in READABLE)])
        parser.add_argument("--yes", action="store_true", help="import it")
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor, host = actor_of_command(options), host_named(options["host"])
        try:
            content, file_name, format_name = self._content(options["file"], options["format"])
            row = list_imports.list_preview(
                host=host,
                resource_name=options["resource"],
                content=content,
                file_name=file_name,
                format_name=format_name,
                root=RemoteName.from_text(options["root"]),
                actor=actor,
            )
            self._tell(list_imports.preview_of(row))
            if options["yes"]:
                list_imports.list_import(imported=row, digest=row.digest, actor=actor)
                self.stdout.write(f"Imported as a listing of “{row.resource_name}”.")
            else:
                list_imports.list_discard(imported=row, actor=actor)
                self.stdout.write("Nothing was made. Say --yes to import it.")
        except (InventoryError, ListError, PermissionDenied, StateConflict) as error:
            raise CommandError(str(error)) from error

    def _content(self, path: Path, format_name: str) -> tuple[bytes, str, str]:
        try:
            if path.is_dir():  # a bag is kept as one list of what its manifests say
                bag = read_bag(path)
                for note in bag.notes:
                    self.stdout.write(f"- {note}")
                return b"".join(write(bag.entries)), f"{path.name}.mtree", "mtree"
            return path.read_bytes(), path.name, format_name
        except OSError as error:
            raise CommandError(f"“{path}” cannot be read ({error.strerror}). Nothing was changed.") from error

    def _tell(self, preview: list_imports.ListPreview) -> None:
        digests = ", ".join(f"{count:,} {name}" for name, count in preview.digests.items()) or "no digests"
        self.stdout.write(
            f"{preview.files:,} files, {preview.folders:,} folders, {preview.total_bytes:,} bytes declared, {digests}; "
            + ("makes a new resource" if preview.is_new else "the resource is there already")
        )
        for note in preview.notes:
            self.stdout.write(f"- {note}")
        if preview.sums is not None:
            sums = preview.sums
            self.stdout.write(
                f"Beside the last scan: {sums.same:,} the same, {sums.changed:,} differ, {sums.removed:,} listed and "
                f"not there, {sums.added:,} there and not listed."
            )
        for drift in preview.drifts:
            self.stdout.write(f"  {drift.kind:<8} {escape(drift.name)}")
