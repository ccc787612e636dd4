"""Making usable files from an opened build, in a fresh folder, and checking each of them again by its digest.

The folder is filled under a temporary name and gets its own when it is complete; a folder that has that name already
is kept aside as `<name>.1`, `<name>.2`, … and never written to. Rules for content that may be hostile:

* every name is walked below the folder by handles, without following a link; `..` is refused, a leading slash dropped;
* files are created new, never opened; a later member of the same name replaces the one that this act made before;
* symbolic links are made last, with exactly their text; those that lead out of the folder are named in the result;
* hard links only to regular files of the folder; devices, pipes and other kinds are left out and named;
* setuid, setgid and sticky bits are dropped and named; owners are not restored.

Each attempt fills a temporary folder of its own. One that was killed leaves it, and the next attempt of the same act
removes it: whoever still wrote there (a worker that was away too long) then finds nothing to write to or to publish.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inventory.remote.names import escape
from transfers.engine.landing import landing_error
from transfers.engine.opens.base import READ_BYTES, WINDOW_CAP_BYTES, Watch
from transfers.engine.opens.opening import content_of, holds_tar, single_name
from transfers.engine.opens.tar import TarReader
from transfers.engine.tree import Tree
from transfers.engine.types import CheckLevel, Finding, Member, Outcome
from transfers.engine.unpack_members import Filling, Remark
from transfers.engine.unpack_satisfied import Satisfied, expected_of, fill_satisfied
from transfers.engine.verify import Stopped

NOTHING = Satisfied()


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What an unpack act made. `former` is where a folder of that name was put aside; `checked` counts files whose
    digest was compared after they were written."""

    folder: Path
    former: Path | None
    members: int
    bytes_written: int
    checked: int
    remarks: tuple[Remark, ...]
    remark_counts: Mapping[str, int]


@dataclass(eq=False)
class UnpackDiffers(Exception):
    """What was written does not match: nothing was published."""

    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        first = self.findings[0]
        return (
            f"{len(self.findings):,} unpacked files do not match the digests of the pack, the first of them "
            f"“{escape(first.subject)}” ({first.message or first.outcome}). The pack itself is untouched and nothing "
            "was published. Verify the build again, and look at the disk if it happens twice."
        )


def unpack_file(
    source: Path,
    target: Path,
    expected: Mapping[bytes, bytes],
    *,
    act: str = "only",
    satisfied: Satisfied = NOTHING,
    window_limit_bytes: int = WINDOW_CAP_BYTES,
    watch: Watch | None = None,
) -> Unpacked:
    """Unpack one landed archive into the folder `target`; content that holds no tar becomes one file in it.

    `expected`: digests of files by member name. `act` names the act of which this is an attempt. `satisfied`: files
    that the tree gets from elsewhere.
    Raises ContentError, LandingError, UnpackDiffers, Stopped.
    """

    def fill(filling: Filling) -> None:
        with content_of(source, window_limit_bytes=window_limit_bytes) as (compression, stream):
            if holds_tar(stream):
                filling.from_tar(TarReader(stream))
            else:
                about = source.stat()
                filling.from_stream(single_name(source, compression), stream, about.st_mode, about.st_mtime_ns)
        fill_satisfied(filling, satisfied)

    return _unpack(target, {**expected, **expected_of(satisfied.members)}, fill, watch or Watch(), act)


def unpack_files(
    source: Path,
    target: Path,
    members: Iterable[Member],
    *,
    act: str = "only",
    satisfied: Satisfied = NOTHING,
    watch: Watch | None = None,
) -> Unpacked:
    """Make a usable folder from a *files* build: a copy of each file, with the list's folders, links, modes and times.

    Raises LandingError, UnpackDiffers, Stopped.
    """
    listed = list(members)

    def fill(filling: Filling) -> None:
        with Tree(source) as landed:
            filling.from_list(listed, landed)
        fill_satisfied(filling, satisfied)

    return _unpack(target, expected_of([*listed, *satisfied.members]), fill, watch or Watch(), act)


def _unpack(
    target: Path, expected: Mapping[bytes, bytes], fill: Callable[[Filling], None], watch: Watch, act: str
) -> Unpacked:
    beginning = f".{target.name}.unpacking-{act}-"
    temporary = target.with_name(beginning + secrets.token_hex(4))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in [path for path in target.parent.iterdir() if path.name.startswith(beginning)]:
            _remove(left)
        temporary.mkdir(0o755)
        try:
            with Tree(temporary) as tree:
                filling = Filling(tree, watch)
                fill(filling)
                filling.make_links()
                os.sync()  # once for all files; a sync of each would cost milliseconds a file
                checked = _check(filling, expected)
                filling.finish_folders()
            if watch.stop():
                raise Stopped
        except BaseException:
            _remove(temporary)
            raise
        former = _publish(temporary, target)
    except OSError as error:
        raise landing_error(error, target, 0) from error
    return Unpacked(
        folder=target,
        former=former,
        members=filling.members,
        bytes_written=filling.bytes_written,
        checked=checked,
        remarks=tuple(filling.remarks),
        remark_counts=dict(filling.counts),
    )


def _check(filling: Filling, expected: Mapping[bytes, bytes]) -> int:
    """Read every written file back from the disk and compare it; returns how many. Raises UnpackDiffers, Stopped."""
    wrong: list[Finding] = []
    checked = 0
    for name, member_name in filling.files.items():
        wanted = expected.get(member_name)
        if wanted is None:
            continue
        digest, size = hashlib.sha256(), 0
        with filling.tree.reading(name) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            while data := os.read(file, READ_BYTES):
                digest.update(data)
                size += len(data)
                if filling.watch.stop():
                    raise Stopped
        filling.watch.progress(filling.bytes_written)
        checked += 1
        if digest.digest() != wanted:
            finding = Finding(CheckLevel.MEMBER, member_name, 0, size, wanted, digest.digest(), Outcome.DIFFERED, 0.0)
            wrong.append(finding)
    made = set(filling.files.values())
    for name in sorted(expected.keys() - made - filling.left_out):
        wrong.append(Finding(CheckLevel.MEMBER, name, 0, 0, expected[name], None, Outcome.MISSING, 0.0, "not written"))
    if wrong:
        raise UnpackDiffers(tuple(wrong))
    return checked


def _remove(folder: Path) -> None:
    """Remove our own unfinished folder, if there is one; by handles, so that no link in it is followed."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        # A folder in it may not be written to by its own permissions; it must not stand in the next attempt's way.
        folder.rename(_free_name(folder))


def _free_name(path: Path) -> Path:
    number = 1
    while os.path.lexists(kept := path.with_name(f"{path.name}.{number}")):
        number += 1
    return kept


def _publish(temporary: Path, target: Path) -> Path | None:
    former = None
    if os.path.lexists(target):
        former = _free_name(target)
        target.rename(former)
    temporary.rename(target)
    handle = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return former
