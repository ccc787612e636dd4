"""What is already here: declared by people, proven by digests that were read here or that a list states."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit.services import record
from calculet.leases.services import lease_request_stop
from calculet.lifecycle import Actor, advance
from calculet.named_folders import Obstacle, PathNotAllowed, path_allowed
from calculet.people.roles import Act, require
from inventory.manifests.formats import read_list
from inventory.manifests.lists import FileList
from inventory.models import HadFile, HadKind, HadSource, HadState
from inventory.remote.names import RemoteName
from inventory.services.errors import ValueWrong
from inventory.services.list_imports import LARGEST_FILE_BYTES

_STORE_FILES = 2000
_AGAIN = (HadState.FINISHED, HadState.FAILED, HadState.CANCELLED)


def had_folder(*, path: str, actor: Actor, name: str = "") -> HadSource:
    """Declare a folder of this machine as already here; the caller sends the task that reads it.

    Raises NotAllowed, ValueWrong (a folder that the installation does not allow).
    """
    require(actor.user, Act.RESOURCE_EDIT)
    folder = folder_allowed(path)
    return _made(HadKind.FOLDER, name or folder.name or str(folder), RemoteName(os.fsencode(folder)), actor)


def had_landing(*, landing: str, actor: Actor, name: str = "") -> HadSource:
    """Declare what was opened in a landing as already here; the caller sends the task that takes its proofs.

    Raises NotAllowed, ValueWrong.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    return _made(HadKind.LANDING, name or landing, RemoteName(landing.encode()), actor)


def _made(kind: HadKind, name: str, place: RemoteName, actor: Actor) -> HadSource:
    words = " ".join(name.split())[:120]
    with transaction.atomic():
        if HadSource.objects.filter(kind=kind, place=place).exclude(state=HadState.WITHDRAWN).exists():
            raise ValueWrong("path", _("“%(place)s” is declared already. Read it again instead.") % {"place": place})
        row = HadSource.objects.create(kind=kind, name=words, place=place, requested_by=actor.user)
        record(act="had.asked", actor=actor, subject=row, detail={"kind": kind.value, "place": str(place)})
    return row


def roots_allowed() -> list[Path]:
    """The folders that the installation names for it."""
    return list(settings.HAD_DIRS)


def folder_allowed(text: str) -> Path:
    """The real path of a folder at or below one that the installation names, links resolved. Raises ValueWrong."""
    try:
        found = path_allowed(Path(text), roots_allowed())
    except PathNotAllowed as error:
        raise _refused(text, _obstacle(error)) from error
    if not found.is_dir():
        raise _refused(text, _("it is no folder."))
    return found


def _obstacle(error: PathNotAllowed) -> str:
    if error.obstacle is Obstacle.NO_FOLDERS:
        return _("this installation names no folders for it. Set CALCULET_HAD_DIRS.")
    if error.obstacle is Obstacle.NOT_ABSOLUTE:
        return _("give an absolute path (it begins with “/”).")
    if error.obstacle is Obstacle.NOT_THERE:
        return _("it cannot be opened (%(why)s).") % {"why": error.why}
    shown = ", ".join(str(root) for root in roots_allowed())
    return _("it does not lie below %(roots)s, which CALCULET_HAD_DIRS names.") % {"roots": shown}


def _refused(text: str, reason: str) -> ValueWrong:
    sentence = _("“%(path)s” cannot be taken as already here: %(reason)s Nothing was changed.")
    return ValueWrong("path", sentence % {"path": text[:200], "reason": reason})


def had_list(*, content: bytes, file_name: str, actor: Actor, name: str = "", format_name: str = "") -> HadSource:
    """Read a checksum list of what is here; it covers nothing before it is declared.

    A doubtful line stops it. Raises NotAllowed, ValueWrong, ListError.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    if len(content) > LARGEST_FILE_BYTES:
        raise ValueWrong("file", _("The list is larger than 64 MiB. Nothing was kept. Split it."))
    found = read_list(content, format_name=format_name, file_name=file_name)
    files = [entry for entry in found.entries if entry.kind == "file"]
    proven = sum(bool(entry.digest("sha256")) for entry in files)
    if not proven:
        raise ValueWrong(
            "file", _("The list holds no SHA-256, and by nothing else is a file known to be here. Nothing was kept.")
        )
    with transaction.atomic():
        row = HadSource.objects.create(
            kind=HadKind.LIST,
            name=" ".join((name or file_name).split())[:120],
            place=RemoteName(file_name[-255:].encode("utf-8", "surrogateescape")),
            digest=hashlib.sha256(content).hexdigest(),
            state=HadState.PREVIEWED,
            requested_by=actor.user,
            files_wanted=proven,
            files_done=proven,
            files_left=len(files) - proven,
            bytes_done=sum(entry.size_bytes or 0 for entry in files if entry.digest("sha256")),
        )
        _keep(row, found)
        detail = {"file": file_name[-255:], "digest": row.digest, "files": proven, "without": row.files_left}
        record(act="had.list_read", actor=actor, subject=row, detail=detail)
    return row


def _keep(row: HadSource, found: FileList) -> None:
    now = timezone.now()
    rows = [
        HadFile(
            source=row,
            name=RemoteName(entry.name),
            size_bytes=entry.size_bytes,
            sha256=bytes.fromhex(digest),
            mtime_ns=entry.mtime_ns or 0,
            taken_at=now,
        )
        for entry in found.entries
        if entry.kind == "file" and (digest := entry.digest("sha256"))
    ]
    HadFile.objects.bulk_create(rows, batch_size=_STORE_FILES)


def had_declare(*, source: HadSource, actor: Actor) -> None:
    """Let a list that was looked at cover what it names. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.RESOURCE_EDIT)
    detail = {"digest": source.digest, "files": source.files_done}
    advance(
        source, HadState.FINISHED, act="had.declared", actor=actor, detail=detail, changed_at=timezone.now(), problem=""
    )


def had_withdraw(*, source: HadSource, actor: Actor) -> None:
    """Take a declaration back; it covers nothing from now on. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.RESOURCE_EDIT)
    with transaction.atomic():
        advance(source, HadState.WITHDRAWN, act="had.withdrawn", actor=actor, changed_at=timezone.now())
        source.files.all().delete()


def had_again(*, source: HadSource, actor: Actor) -> None:
    """Read a folder or a landing again; the caller sends the task. Until then it covers nothing.

    Raises NotAllowed, ValueWrong, StateConflict.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    if source.kind == HadKind.LIST:
        raise ValueWrong("source", _("A list is not read again; declare the newer one beside it."))
    advance(
        source,
        HadState.QUEUED,
        act="had.asked_again",
        actor=actor,
        changed_at=timezone.now(),
        turn=source.turn + 1,
        files_done=0,
        bytes_done=0,
        files_left=0,
        problem="",
    )


def had_cancel(*, source: HadSource, actor: Actor) -> None:
    """Stop reading; what was read is remembered for the next time. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.RESOURCE_EDIT)
    with transaction.atomic():
        lease_request_stop(name=had_lease(source.pk))
        advance(source, HadState.CANCELLED, act="had.cancelled", actor=actor, changed_at=timezone.now())


def had_lease(source_id: int) -> str:
    """The name of the lease under which a declaration is read."""
    return f"had:{source_id}"
