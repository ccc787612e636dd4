"""The main job without broker and browser: each run act called as a worker would call it."""

from __future__ import annotations

import os
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, Resource
from inventory.services.scans import scan_request, scan_run
from transfers.models import Build, BuildState, Item, Landing, Revision
from transfers.selectors.adoptions import adoptions_due
from transfers.services.adoptions import adoption_run
from transfers.services.links import link_run
from transfers.services.packing import pack_run
from transfers.services.plans import draft_start, item_set, revision_approve, revision_propose
from transfers.services.reports import report_run
from transfers.services.verification import open_run, verify_run

NASTY_NAMES = (b"with space", b"qu'ote\"s", b"line\nfeed", b"-rf", b"caf\xe9", b"back\\slash", b"*", "汉字".encode())


def landing_make(path: Path) -> Landing:
    """The default landing in a folder of the test."""
    Landing.objects.filter(is_default=True).delete()
    return Landing.objects.create(name="test", path=str(path), is_default=True)


def tree_make(root: Path, *, nasty: bool = True) -> Path:
    """A small tree of every packable kind, hostile names among them."""
    (root / "src/deep").mkdir(parents=True)
    (root / "empty-folder").mkdir()
    (root / "src/main.c").write_text("int main(void) { return 0; }\n" * 200)
    (root / "src/deep/empty").touch()
    (root / "link").symlink_to("src/main.c")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    for name in NASTY_NAMES if nasty else ():
        (Path(os.fsdecode(os.fsencode(root / "src") + b"/" + name))).write_bytes(name * 10)
    return root


def scan(resource: Resource, person: Person) -> None:
    """Scan a resource here and now."""
    scan_run(scan_request(resource=resource, actor=Actor.of(person)).pk)


Packs = tuple[str, str, Sequence[Resource]]  # name, mode, resources


def draft(
    host: Host, author: Person, *packs: Packs, exclude: Sequence[str] = (), leaves_out_carried: bool = False
) -> Revision:
    """A draft with packs."""
    actor = Actor.of(author)
    revision = draft_start(host=host, actor=actor)
    for name, mode, resources in packs:
        item_set(
            revision=revision,
            pack_name=name,
            mode=mode,
            resources=resources,
            include_rules=(),
            exclude_rules=exclude,
            leaves_out_carried=leaves_out_carried,
            actor=actor,
        )
    return revision


def propose(host: Host, author: Person, *packs: Packs, exclude: Sequence[str] = ()) -> Revision:
    """A proposed revision with packs."""
    return revision_propose(revision=draft(host, author, *packs, exclude=exclude), actor=Actor.of(author))


def approve(revision: Revision, person: Person) -> list[Build]:
    """Approve what was proposed; returns the builds of its packs in execution order."""
    revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(person))
    items = Item.objects.filter(revision=revision).order_by("pack__position")
    return [item.pack.builds.order_by("-number")[0] for item in items]


def until_packed(build: Build, *, seconds: float = 30.0) -> Build:
    """Let the packer take turns until the build is packed, needs a decision, or failed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pack_run(build.pk)
        build.refresh_from_db()
        if build.state not in (BuildState.PLANNED, BuildState.PACKING):
            return build
        time.sleep(0.2)
    raise AssertionError(f"{build} is still {build.state}: {build.problem}")


def bring_home(builds: Sequence[Build], after_link: Callable[[], None] = lambda: None) -> None:
    """Pack, take over what is here, fetch, verify, open and report builds of one host."""
    for build in builds:
        until_packed(build)
    for adoption in adoptions_due():
        adoption_run(adoption)
    link_run(builds[0].pack.plan.host_id)
    after_link()
    for build in builds:
        verify_run(build.pk)
        open_run(build.pk)
        report_run(build.pk)
        build.refresh_from_db()


def tar_gz(path: Path, content: dict[str, bytes]) -> Path:
    """An existing archive on the host."""
    folder = path.parent / f"{path.name}.content"
    folder.mkdir(parents=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)
    with tarfile.open(path, "w:gz") as archive:
        for name in content:
            archive.add(folder / name, name)
    return path
