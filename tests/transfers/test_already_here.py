"""What is already here: folders that the installation allows, landings by their proofs, checksum lists; and packs that
leave it out."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from calculet.actors import Actor
from calculet.leases.services import lease_acquire, lease_request_stop
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.here import digests_covered
from inventory.manifests.lists import ListError
from inventory.models import Entry, HadCover, HadFile, HadSource, HadState, Host, Resource, Scan
from inventory.services import had, had_covers, had_runs
from inventory.services.errors import ValueWrong
from tests.inventory.browser import SignedIn, act_of
from tests.transfers.factories import PlannedHost, make_host, make_list, make_resource
from transfers.models import BuildState, Item
from transfers.selectors.here import left_out_of
from transfers.selectors.specs import list_members
from transfers.services import plans
from transfers.services.leaving import landing_proofs
from transfers.services.revision_digests import revision_digest

CONTENTS = {b"a": b"first" * 20, b"sub/b \xff\n": b"second" * 20, b"c": b"third" * 20}


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


@pytest.fixture
def shelf(tmp_path: Path, settings: object) -> Path:
    """A folder that the installation allows, with files in it."""
    made = tmp_path / "shelf"
    for name, content in CONTENTS.items():
        path = made / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret").write_bytes(b"not to be read")
    (made / "link").symlink_to(tmp_path / "secret")
    settings.HAD_DIRS = [made]  # type: ignore[attr-defined]
    return made


def read(source: HadSource) -> HadSource:
    had_runs.had_run(source.pk, proofs=landing_proofs)
    source.refresh_from_db()
    return source


def tree_with(host: Host, contents: dict[bytes, bytes]) -> Resource:
    """A resource whose scan has these files with their digests."""
    resource = make_resource(host, "tree", b"/t", {name: len(content) for name, content in contents.items()})
    for entry in Entry.objects.filter(scan__resource=resource, kind="file"):
        Entry.objects.filter(pk=entry.pk).update(sha256=sha256(contents[entry.name.raw]))
    return resource


def count_covers() -> dict[str, tuple[int, int]]:
    for key in had_covers.covers_sweep():
        had_covers.cover_count(key)
    assert had_covers.covers_sweep() == []
    return {cover.resource.name: (cover.files, cover.size_bytes) for cover in HadCover.objects.all()}


def test_a_folder_is_read_once_and_again_only_where_it_changed(shelf: Path, alice: Person) -> None:
    source = read(had.had_folder(path=str(shelf), actor=Actor.of(alice)))
    assert (source.state, source.files_done, source.files_left) == (HadState.FINISHED, 3, 0)
    found = {file.name.raw: bytes(file.sha256) for file in source.files.all()}
    assert found == {name: sha256(content) for name, content in CONTENTS.items()}
    HadFile.objects.filter(name=b"a").update(sha256=b"remembered".ljust(32))
    (shelf / "c").write_bytes(b"another")
    (shelf / os.fsdecode(b"sub/b \xff\n")).unlink()
    had.had_again(source=source, actor=Actor.of(alice))
    read(source)
    found = {file.name.raw: bytes(file.sha256) for file in source.files.all()}
    assert found == {b"a": b"remembered".ljust(32), b"c": sha256(b"another")}


@pytest.mark.parametrize("path", ["/etc", "relative", "", "{shelf}/../secret", "{shelf}/link", "{shelf}/a", "/\0"])
def test_nothing_outside_the_allowed_folders_is_read(shelf: Path, alice: Person, path: str) -> None:
    with pytest.raises(ValueWrong, match="Nothing was changed"):
        had.had_folder(path=path.format(shelf=shelf), actor=Actor.of(alice))
    assert not HadSource.objects.exists()


def test_a_folder_that_is_allowed_no_more_is_not_read(shelf: Path, alice: Person, settings: object) -> None:
    source = had.had_folder(path=str(shelf), actor=Actor.of(alice))
    settings.HAD_DIRS = []  # type: ignore[attr-defined]
    assert read(source).state == HadState.FAILED and "CALCULET_HAD_DIRS" in source.problem


def test_a_reading_that_is_given_up_ends_and_keeps_what_it_read(
    shelf: Path, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = had.had_folder(path=str(shelf), actor=Actor.of(alice))
    monkeypatch.setattr(had_runs, "_BATCH_FILES", 1)
    plain_row = had_runs._row

    def row(*given: object) -> HadFile:
        had.had_cancel(source=HadSource.objects.get(pk=source.pk), actor=Actor.of(alice))
        monkeypatch.setattr(had_runs, "_row", plain_row)
        return plain_row(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(had_runs, "_row", row)
    assert read(source).state == HadState.CANCELLED
    assert digests_covered([sha256(content) for content in CONTENTS.values()]) == {}
    had.had_again(source=source, actor=Actor.of(alice))
    assert read(source).state == HadState.FINISHED and source.files_done == 3


def test_one_worker_reads(shelf: Path, alice: Person) -> None:
    source = had.had_folder(path=str(shelf), actor=Actor.of(alice))
    assert had_runs.had_sweep() == [source.pk]
    assert lease_acquire(name=had.had_lease(source.pk)) is not None
    assert had_runs.had_sweep() == [] and read(source).state == HadState.QUEUED
    lease_request_stop(name=had.had_lease(source.pk))


def test_a_list_covers_nothing_before_it_is_declared(alice: Person) -> None:
    text = "".join(f"{sha256(content).hex()}  {number}\n" for number, content in enumerate(CONTENTS.values()))
    source = had.had_list(content=text.encode(), file_name="SHA256SUMS", actor=Actor.of(alice))
    digests = [sha256(content) for content in CONTENTS.values()]
    assert source.files_done == 3 and digests_covered(digests) == {}
    had.had_declare(source=source, actor=Actor.of(alice))
    assert set(digests_covered(digests)) == set(digests)
    had.had_withdraw(source=source, actor=Actor.of(alice))
    assert digests_covered(digests) == {} and not source.files.exists()


def test_a_list_with_a_doubtful_line_or_without_sha256_is_refused(alice: Person) -> None:
    good = sha256(b"x").hex()
    with pytest.raises(ListError, match="2"):
        had.had_list(content=f"{good}  a\n{good[:-1]}  b\n".encode(), file_name="SHA256SUMS", actor=Actor.of(alice))
    with pytest.raises(ValueWrong, match="no SHA-256"):
        had.had_list(content=b"d41d8cd98f00b204e9800998ecf8427e  a\n", file_name="MD5SUMS", actor=Actor.of(alice))
    assert not HadSource.objects.exists()


def test_a_landing_is_proven_by_the_packs_that_were_opened_there(tmp_path: Path, alice: Person) -> None:
    planned = PlannedHost(alice, tmp_path)
    opened = planned.add("opened", BuildState.OPENED).builds.get()
    received = planned.add("received", BuildState.RECEIVED).builds.get()
    for build, name in ((opened, b"x/opened"), (received, b"x/received")):
        build.member_list = make_list([(name, 9)], is_digested=True)
        build.save()
    source = read(had.had_landing(landing=opened.landing.name, actor=Actor.of(alice)))
    assert {bytes(file.sha256) for file in source.files.all()} == {sha256(b"x/opened")}
    assert source.files.get().name.raw.endswith(b": /x/opened")


@pytest.mark.databases
def test_covers_are_counted_anew_when_anything_changed(shelf: Path, alice: Person) -> None:
    resource = tree_with(make_host(), {b"a": CONTENTS[b"a"], b"own": b"own"})
    assert had_covers.covers_sweep() == []
    source = read(had.had_folder(path=str(shelf), actor=Actor.of(alice)))
    assert count_covers() == {"tree": (1, 100)}
    Entry.objects.filter(scan__resource=resource, name=b"own").update(sha256=sha256(CONTENTS[b"c"]), size_bytes=100)
    had.had_again(source=source, actor=Actor.of(alice))
    assert count_covers() == {"tree": (0, 0)}
    read(source)
    assert count_covers() == {"tree": (2, 200)}
    had.had_withdraw(source=source, actor=Actor.of(alice))
    assert count_covers() == {"tree": (0, 0)}


def item_of(host: Host, person: Person, resource: Resource, *, leaves: bool = True, mode: str = "archive") -> Item:
    draft = plans.draft_start(host=host, actor=Actor.of(person))
    return plans.item_set(
        revision=draft,
        pack_name="pack",
        mode=mode,
        resources=[resource],
        include_rules=[],
        exclude_rules=[],
        leaves_out_here=leaves,
        actor=Actor.of(person),
    )


def test_a_pack_leaves_out_what_is_here_and_says_by_what(
    shelf: Path, alice: Person, bob: Person, signed_in: SignedIn
) -> None:
    host = make_host()
    resource = tree_with(host, {b"a": CONTENTS[b"a"], b"own": b"own", b"empty": b""})
    read(had.had_folder(path=str(shelf), name="Shelf", actor=Actor.of(alice)))
    item = item_of(host, alice, resource)
    seen = plans.item_preview(item=item, actor=Actor.of(alice))
    assert (seen.file_count, seen.total_bytes) == (2, 3)
    assert item.entry_list is not None
    assert [one.name for one in list_members(item.entry_list) if one.kind == "file"] == [b"t/empty", b"t/own"]
    left = left_out_of(item)
    assert left is not None and (left.files, left.size_bytes) == (1, 100)
    assert [(one.name, one.place, str(one.source)) for one in left.sample] == [("/t/a", "a", "Shelf")]
    page = signed_in(alice).get(reverse("transfers:plan", args=[host.name])).text
    assert "100 B left out: already here" in page.replace("\xa0", " ")
    before = revision_digest(item.revision)
    item = item_of(host, alice, resource, leaves=False)
    assert plans.item_preview(item=item, actor=Actor.of(alice)).file_count == 3 and left_out_of(item) is None
    assert revision_digest(item.revision) != before
    revision = plans.revision_propose(
        revision=item_of(host, alice, resource).revision, actor=Actor.of(alice), note="less to fetch"
    )
    seen_by_bob = signed_in(bob).get(reverse("transfers:revision", args=[host.name, revision.number])).text
    assert "left out because their content was declared as already here" in seen_by_bob


def test_what_has_no_digest_is_never_called_here_and_an_empty_pack_is_refused(shelf: Path, alice: Person) -> None:
    host = make_host()
    resource = tree_with(host, {b"a": CONTENTS[b"a"]})
    read(had.had_folder(path=str(shelf), actor=Actor.of(alice)))
    with pytest.raises(ValidationError, match="Every file of pack “pack” is already here"):
        plans.item_preview(item=item_of(host, alice, resource), actor=Actor.of(alice))
    Entry.objects.update(sha256=None)
    assert plans.item_preview(item=item_of(host, alice, resource), actor=Actor.of(alice)).file_count == 1


def test_a_baseline_that_is_partly_here_is_told_in_per_cent(alice: Person, signed_in: SignedIn) -> None:
    """As the sample plan has it: 57.15 % of the baseline were fetched before, and a checksum list says which chunks."""
    here = {b"baseline.part-%02d" % number: b"%03d. " % number * 100 for number in range(11)}
    here[b"baseline.part-11"] = b"short" * 43
    resource = tree_with(make_host(), {**here, b"baseline.part-12": b"still there" * 389 + b"......"})
    Scan.objects.update(apparent_bytes=10_000)
    text = "".join(f"{sha256(content).hex()}  old/{name.decode()}\n" for name, content in here.items())
    source = had.had_list(content=text.encode(), file_name="SHA256SUMS", actor=Actor.of(alice))
    had.had_declare(source=source, actor=Actor.of(alice))
    assert count_covers() == {"tree": (12, 5715)}
    shown = signed_in(alice).get(reverse("inventory:resource", args=[resource.pk])).text
    assert "in 12 files" in shown and "57\xa0%" in shown
    item = item_of(resource.host, alice, resource)
    assert plans.item_preview(item=item, actor=Actor.of(alice)).total_bytes == 4285


def test_declaring_needs_the_role(shelf: Path, carol: Person) -> None:
    with pytest.raises(NotAllowed):
        had.had_folder(path=str(shelf), actor=Actor.of(carol))
    with pytest.raises(NotAllowed):
        had.had_list(content=b"", file_name="x", actor=Actor.of(carol))


def test_the_pages_declare_read_and_show_the_evidence(shelf: Path, alice: Person, signed_in: SignedIn) -> None:
    resource = tree_with(make_host(), {b"a": CONTENTS[b"a"], b"own": b"own"})
    client, page = signed_in(alice), reverse("transfers:here")
    assert "Nothing is declared" in client.get(page).text
    refused = act_of(client, page, page, kind="folder", path="/etc")
    assert "does not lie below" in refused.text
    act_of(client, page, page, kind="folder", path=str(shelf), name="Shelf")
    source = HadSource.objects.get()
    assert "hx-trigger" in client.get(page).text
    read(source)
    count_covers()
    assert "What that covers" in client.get(page).text
    shown = client.get(reverse("inventory:resource", args=[resource.pk])).text
    assert "Already here" in shown and "Shelf: a" in shown
    upload = SimpleUploadedFile("SHA256SUMS", f"{sha256(b'own').hex()} *own\n".encode())
    listed = act_of(client, page, page, kind="list", file=upload)
    assert "covers nothing before it is declared" in listed.text
    other = HadSource.objects.exclude(pk=source.pk).get()
    act = reverse("transfers:here-act", args=[other.pk, "declare"])
    act_of(client, reverse("transfers:here-source", args=[other.pk]), act)
    assert count_covers() == {"tree": (2, 103)}
