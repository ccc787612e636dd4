"""Lists that people had: looked at first, then imported whole or not at all, by page and by command."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.lifecycle import StateConflict
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory import browsing, selectors
from inventory.manifests.formats import FORMATS
from inventory.manifests.lists import ListError
from inventory.models import Host, ImportedList, ListState, Resource, Scan, ScanState, SizeBasis
from inventory.services import list_imports, scans
from inventory.services.errors import ValueWrong
from tests.hosts import host_make, resource_make
from tests.inventory.browser import SignedIn, act_of, key_of
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db

A, B = "a" * 64, "b" * 64
SUMS = f"{A}  lib/one\n{B}  two\n".encode()
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def looked_at(host: Host, person: Person, content: bytes = SUMS, **values: str) -> ImportedList:
    given = {"resource_name": "tree", "file_name": "SHA256SUMS", **values}
    return list_imports.list_preview(host=host, content=content, actor=Actor.of(person), **given)


def test_looking_at_a_list_makes_nothing(host: Host, alice: Person) -> None:
    row = looked_at(host, alice)
    preview = list_imports.preview_of(row)
    assert (preview.files, preview.digests, preview.is_new) == (2, {"sha256": 2}, True)
    assert not Resource.objects.exists() and not Scan.objects.exists()


def test_importing_makes_the_resource_and_its_listing_with_the_folders_between(host: Host, alice: Person) -> None:
    content = b'[{"Path":"lib/one","Size":5},\n{"Path":"two","Size":7}]'
    row = looked_at(host, alice, content, root="/srv/tree")
    scan = list_imports.list_import(imported=row, digest=row.digest, actor=Actor.of(alice))
    made = Resource.objects.get()
    assert (made.path.raw, made.size_bytes, made.size_basis) == (b"/srv/tree", 12, SizeBasis.DECLARED)
    assert [entry.name.raw for entry in scan.entries.order_by("position")] == [b"", b"lib", b"lib/one", b"two"]
    root, folder = scan.entries.get(position=0), scan.entries.get(position=1)
    assert (root.entries_below, root.bytes_below, folder.entries_below, folder.bytes_below) == (3, 12, 1, 5)
    assert [row.shown for row in browsing.folder_page(scan, root).rows] == ["lib", "two"]
    acts = list(Event.objects.order_by("sequence").values_list("act", flat=True))
    assert acts[-3:] == ["list.previewed", "resource.added", "list.imported"]


def test_a_list_never_counts_as_a_scan(resource: Resource, alice: Person) -> None:
    row = looked_at(resource.host, alice)
    list_imports.list_import(imported=row, digest=row.digest, actor=Actor.of(alice))
    assert selectors.latest_scan(resource) is None and selectors.scans_of(resource) == []
    resource.refresh_from_db()
    assert resource.size_basis == SizeBasis.UNKNOWN and scans.scans_sweep() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"{A}  ok\nnonsense\n".encode(), "line 2"),
        (f"{A}  /abs/olute\n".encode(), "Say which folder"),
        (b"", "empty"),
    ],
)
def test_a_doubtful_list_leaves_nothing_behind(host: Host, alice: Person, content: bytes, words: str) -> None:
    with pytest.raises(ListError, match=words):
        looked_at(host, alice, content)
    assert not ImportedList.objects.exists() and not Resource.objects.exists()


def test_absolute_names_are_taken_below_the_resources_path_and_nowhere_else(resource: Resource, alice: Person) -> None:
    row = looked_at(resource.host, alice, f"{A}  /data/tree/x\n".encode())
    assert [entry.name for entry in list_imports.preview_of(row).entries] == [b"x"]
    with pytest.raises(ListError, match="does not lie below"):
        looked_at(resource.host, alice, f"{A}  /data/treehouse/x\n".encode())


def test_only_what_was_looked_at_is_imported_and_once(host: Host, alice: Person, carol: Person) -> None:
    row = looked_at(host, alice)
    with pytest.raises(ValueWrong, match="not the list"):
        list_imports.list_import(imported=row, digest=A, actor=Actor.of(alice))
    with pytest.raises(NotAllowed):
        list_imports.list_import(imported=row, digest=row.digest, actor=Actor.of(carol))
    again = ImportedList.objects.get()
    list_imports.list_import(imported=row, digest=row.digest, actor=Actor.of(alice))
    with pytest.raises(StateConflict):
        list_imports.list_import(imported=again, digest=row.digest, actor=Actor.of(alice))
    assert Scan.objects.count() == 1


def test_more_entries_than_fit_are_refused(host: Host, alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_imports, "MOST_ENTRIES", 1)
    with pytest.raises(ListError, match="line 2: the list names 2 entries"):
        looked_at(host, alice)


@given(found=st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=4, unique=True))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_survive_import_database_and_export(host: Host, alice: Person, found: list[bytes]) -> None:
    names = sorted({name.replace(b"/", b"x").replace(b"\0", b"y") for name in found} - {b".", b".."}) or [b"z"]
    content = b"".join(name + b"\0" for name in names)
    row = looked_at(host, alice, content, format_name="find", resource_name=f"tree {Resource.objects.count()}")
    scan = list_imports.list_import(imported=row, digest=row.digest, actor=Actor.of(alice))
    writer = FORMATS["files0"].write
    assert writer is not None
    assert sorted(b"".join(writer(selectors.entries_listed(scan))).split(b"\0")[:-1]) == names


@pytest.fixture
def scan_done(sshd: Sshd, alice: Person, tmp_path: Path) -> Scan:
    top = tmp_path / "tree"
    (top / "lib").mkdir(parents=True)
    (top / "lib" / "one").write_bytes(b"12345")
    (top / "more").write_bytes(b"1")
    host = host_make(sshd, alice)
    scan = scans.scan_request(resource=resource_make(host, alice, top), actor=Actor.of(alice))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    return scan


def test_a_preview_says_what_is_missing_and_what_is_extra_on_the_host(scan_done: Scan, alice: Person) -> None:
    content = b"5\tlib/one\n3\tgone\n9\tmore\n"
    preview = list_imports.preview_of(looked_at(scan_done.host, alice, content))
    assert preview.sums is not None
    assert (preview.sums.same, preview.sums.changed, preview.sums.removed, preview.sums.added) == (1, 1, 1, 0)
    preview = list_imports.preview_of(looked_at(scan_done.host, alice, b"5\tlib/one\n"))
    assert preview.sums is not None and preview.sums.added == 1


def test_a_list_goes_in_by_the_page_and_out_in_every_format(host: Host, signed_in: SignedIn, alice: Person) -> None:
    client, add = signed_in(alice), reverse("inventory:list-add", args=["far"])
    upload = SimpleUploadedFile("SHA256SUMS", SUMS)
    page = act_of(client, add, add, file=upload, resource_name="tree", root="/srv/tree", format_name="")
    assert page.status_code == 200 and "What it would make" in page.text and "lib/one" in page.text
    row = ImportedList.objects.get()
    shown = reverse("inventory:list", args=[row.pk])
    page = act_of(client, shown, reverse("inventory:list-import", args=[row.pk]), digest=row.digest)
    assert "is imported" in page.text and "What it would make" not in page.text
    scan = Scan.objects.get()
    entries = client.get(reverse("inventory:entries", args=[scan.pk])).text
    assert "As a list says" in entries and "SHA256SUMS (GNU" in entries
    assert "SHA256SUMS" in client.get(reverse("inventory:resource", args=[scan.resource_id])).text
    for name, one in FORMATS.items():
        if one.write is not None:
            answer = client.get(reverse("inventory:scan-export", args=[scan.pk]), {"format": name})
            body = b"".join(answer.streaming_content)  # type: ignore[attr-defined]
            assert b"lib/one" in body and "attachment" in answer["Content-Disposition"], name
    sums = client.get(reverse("inventory:scan-export", args=[scan.pk]), {"format": "sums"})
    assert b"".join(sums.streaming_content) == SUMS  # type: ignore[attr-defined]
    assert client.get(reverse("inventory:scan-export", args=[scan.pk]), {"format": "x"}).status_code == 404


def test_a_doubtful_list_is_refused_on_the_page_with_its_lines(host: Host, signed_in: SignedIn, alice: Person) -> None:
    client, add = signed_in(alice), reverse("inventory:list-add", args=["far"])
    upload = SimpleUploadedFile("x", b"<b>bad\n" + SUMS + b"worse\n")
    page = act_of(client, add, add, file=upload, resource_name="tree")
    assert page.status_code == 422 and "line 1" in page.text and "line 4" in page.text
    assert not ImportedList.objects.exists()


def test_a_list_can_be_discarded_and_needs_the_right(
    host: Host, signed_in: SignedIn, alice: Person, bob: Person
) -> None:
    row = looked_at(host, alice)
    shown = reverse("inventory:list", args=[row.pk])
    assert signed_in(bob).get(reverse("inventory:list-add", args=["far"])).status_code == 403
    assert 'id="import"' not in signed_in(bob).get(shown).text
    client = signed_in(alice)
    key = key_of(client, shown)
    client.post(reverse("inventory:list-discard", args=[row.pk]), {"act_key": key})
    row.refresh_from_db()
    assert row.state == ListState.DISCARDED and not Resource.objects.exists()


def test_the_command_shows_first_and_imports_on_yes(host: Host, alice: Person, tmp_path: Path) -> None:
    path, told = tmp_path / "SUMS", io.StringIO()
    path.write_bytes(SUMS)
    call_command("import_list", str(path), "--host", "far", "--resource", "tree", stdout=told)
    assert "2 files" in told.getvalue() and "Nothing was made" in told.getvalue() and not Scan.objects.exists()
    call_command("import_list", str(path), "--host", "far", "--resource", "tree", "--yes", stdout=told)
    assert Scan.objects.get().files == 2
    path.write_bytes(b"nonsense")
    with pytest.raises(CommandError, match="line 1"):
        call_command("import_list", str(path), "--host", "far", "--resource", "tree", "--yes")


def test_the_command_takes_a_whole_bag(host: Host, alice: Person) -> None:
    bag = FIXTURES / "bagit/v0.97/valid/bag-with-encoded-names"
    call_command("import_list", str(bag), "--host", "far", "--resource", "bag", "--yes", stdout=io.StringIO())
    names = {entry.name.raw for entry in Scan.objects.get().entries.filter(kind="file")}
    assert b"data/%7Edir2/dir3/test5.txt" in names
    row = ImportedList.objects.get()
    assert list_imports.preview_of(row).digests == {"md5": 5}
    assert re.fullmatch("[0-9a-f]{64}", row.digest)
