"""Evidence: what was verified, its reports, and downloads that never leave the report's folder."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from calculet.audit.models import Event
from calculet.http import new_act_key
from calculet.people.models import Person
from tests.transfers.factories import DIGEST, PlannedHost, make_check, make_list
from transfers.models import BuildState, Report
from transfers.selectors.lists import first_files, members_between, members_stream
from transfers.selectors.specs import list_members

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]
SECRET = "what nobody may read here"
FILES = {"SHA256SUMS": f"{DIGEST}  first.tar.zst\n".encode(), "report.json": b'{"a": 1}', "report.html": b"<p>hello"}


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path / "landing")


@pytest.fixture
def report(lab: PlannedHost) -> Report:
    return lab.report(lab.add("first", BuildState.OPENED, member_count=2), dict(FILES))


def text_of(response: HttpResponse | Any, status: int = 200) -> str:
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def file_of(client: Client, report: Report, name: str) -> Any:
    return client.get(reverse("transfers:report", args=[report.pk]) + f"files/{name}")


def test_evidence_and_downloads_need_sign_in_and_a_role(
    client: Client, signed_in: SignedIn, carol: Person, report: Report
) -> None:
    top = reverse("transfers:report", args=[report.pk])
    for address in (reverse("transfers:evidence"), top, f"{top}files/report.json", f"{top}zip/"):
        assert client.get(address).status_code == 302
        assert signed_in(carol).get(address).status_code == 403


def test_the_list_holds_what_was_verified_and_nothing_else(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, report: Report
) -> None:
    lab.add("verified-one", BuildState.VERIFIED)
    lab.add("received-one", BuildState.RECEIVED)
    text = text_of(signed_in(bob).get(reverse("transfers:evidence")))
    assert "verified-one" in text and "received-one" not in text
    assert reverse("transfers:report", args=[report.pk]) in text


def test_a_report_shows_sums_chunks_members_and_checks(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, report: Report
) -> None:
    build = report.build
    build.member_list = make_list([(b"a <b>.txt", 5), (b"odd\n\xff", 6)], is_digested=True)
    build.save()
    make_check(build, "build", "matched", length=4_194_304)
    make_check(build, "member", "differed", subject=b"odd\n\xff", message="It changed.")
    text = text_of(signed_in(bob).get(reverse("transfers:report", args=[report.pk])))
    assert f'<pre tabindex="0">{DIGEST} first.tar.zst' in text
    assert "a &lt;b&gt;.txt" in text and r"odd\n\xff" in text
    assert "4 chunks" in text and "2 members" in text and "It changed." in text
    assert str(lab.landing_path / report.folder) in text


def test_members_are_shown_page_by_page(signed_in: SignedIn, bob: Person, report: Report) -> None:
    build = report.build
    build.member_list = make_list([(f"file-{number:04}".encode(), 1) for number in range(450)])
    build.save()
    client, address = signed_in(bob), reverse("transfers:report", args=[report.pk])
    first, last = text_of(client.get(address)), text_of(client.get(address, {"members": 3}))
    assert "file-0199" in first and "file-0200" not in first and "1 / 3" in first
    assert "file-0400" in last and "file-0449" in last and "file-0399" not in last
    assert "file-0449" in text_of(client.get(address, {"members": 99}))


def test_files_and_the_folder_are_taken_away_whole(signed_in: SignedIn, bob: Person, report: Report) -> None:
    client = signed_in(bob)
    response = file_of(client, report, "report.html")
    assert b"".join(response.streaming_content) == FILES["report.html"]
    assert response.headers["Content-Disposition"] == 'attachment; filename="report.html"'
    assert response.headers["Content-Type"] == "application/octet-stream"  # never run as a page of this site
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    whole: Any = client.get(reverse("transfers:report-zip", args=[report.pk]))
    with zipfile.ZipFile(io.BytesIO(b"".join(whole.streaming_content))) as packed:
        top = "lab-first-1-report"
        assert {name: packed.read(f"{top}/{name}") for name in FILES} == FILES
        assert len(packed.namelist()) == len(FILES)


@pytest.mark.parametrize(
    "name",
    [
        "..%2fsecret.txt",
        "%2e%2e",
        "..",
        "secret.txt",
        "link.txt",
        "folder",
        "folder%2finside.txt",
        ".hidden",
        "a%00b",
        "pipe",
        "%2fetc%2fpasswd",
    ],
)
def test_nothing_but_plain_files_of_the_folder_is_given_out(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, report: Report, name: str
) -> None:
    folder = lab.landing_path / report.folder
    (folder.parent / "secret.txt").write_text(SECRET)
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / ".hidden").write_text(SECRET)
    (folder / "folder").mkdir()
    (folder / "folder" / "inside.txt").write_text(SECRET)
    os.mkfifo(folder / "pipe")
    response = file_of(signed_in(bob), report, name)
    assert response.status_code in (400, 404)
    assert SECRET.encode() not in response.content and not response.streaming
    listed = text_of(signed_in(bob).get(reverse("transfers:report", args=[report.pk])))
    for hidden in ("link.txt", ".hidden", "pipe"):
        assert f"files/{hidden}" not in listed


@pytest.mark.parametrize("folder", ["../outside", "/etc", "", "lab/../../outside", "through-link/outside"])
def test_a_row_that_names_a_folder_elsewhere_gives_nothing(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, report: Report, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "passwd").write_text(SECRET)
    (lab.landing_path / "through-link").symlink_to(tmp_path)
    Report.objects.filter(pk=report.pk).update(folder=folder)
    client = signed_in(bob)
    for name in ("passwd", "hostname"):
        assert file_of(client, report, name).status_code == 404
    assert client.get(reverse("transfers:report-zip", args=[report.pk])).status_code == 404
    assert "not there any more" in text_of(client.get(reverse("transfers:report", args=[report.pk])))


def test_a_report_whose_folder_is_gone_says_so(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, report: Report
) -> None:
    for file in (lab.landing_path / report.folder).iterdir():
        file.unlink()
    (lab.landing_path / report.folder).rmdir()
    text = text_of(file_of(signed_in(bob), report, "report.json"), 404)
    assert "Make the report again" in text
    assert "not there any more" in text_of(signed_in(bob).get(reverse("transfers:report", args=[report.pk])))


def test_a_report_is_not_made_of_what_was_not_verified(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    lab.add("first", BuildState.FETCHING)
    response = signed_in(alice).post(
        reverse("transfers:report-make", args=["lab", "first", 1]), {"act_key": new_act_key()}, follow=True
    )
    assert "A report tells what was verified" in text_of(response)
    assert not Report.objects.exists() and not Event.objects.exists()


def test_a_report_that_cannot_be_written_says_where_and_why(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    lab.add("first", BuildState.OPENED)
    lab.landing_path.mkdir(parents=True)
    (lab.landing_path / "lab").write_text("a file where the folder should be")
    response = signed_in(alice).post(
        reverse("transfers:report-make", args=["lab", "first", 1]), {"act_key": new_act_key()}, follow=True
    )
    assert "The report could not be written below" in text_of(response)
    assert not Report.objects.exists()


def test_a_report_is_made_and_shown(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    pack = lab.add("first", BuildState.OPENED, member_count=2)
    build = pack.builds.get()
    folder = lab.landing_path / build.folder
    folder.mkdir(parents=True)
    for name in ("SHA256SUMS", "chunks.sha256", "members.sha256"):
        (folder / name).write_text(f"{DIGEST}  first.tar.zst\n")
    response = signed_in(alice).post(
        reverse("transfers:report-make", args=["lab", "first", 1]), {"act_key": new_act_key()}, follow=True
    )
    made = Report.objects.get()
    assert response.redirect_chain == [(reverse("transfers:report", args=[made.pk]), 302)]
    assert "report.json" in text_of(response)
    assert Event.objects.get(act="report.make").actor == "alice"


def test_members_are_read_piece_by_piece_and_the_same_as_all_at_once() -> None:
    made = make_list([(b"odd\n\xff/%07d" % number, number) for number in range(20_000)], is_digested=True)
    assert list(members_stream(made)) == list(list_members(made))
    assert [member.size_bytes for member in members_between(made, 15_000, 3)] == [15_000, 15_001, 15_002]
    assert [member.name for member in first_files(made, 1)] == [b"odd\n\xff/0000000"]


@pytest.mark.parametrize("lost", [1, 10])
def test_a_damaged_member_list_is_told_and_breaks_no_page(
    signed_in: SignedIn, bob: Person, report: Report, lost: int
) -> None:
    members = make_list([(b"a", 1), (b"b", 2)])
    whole = zstandard.ZstdDecompressor().decompress(members.content)
    members.content = zstandard.ZstdCompressor().compress(whole[:-lost])
    members.save()
    report.build.member_list = members
    report.build.save()
    text = text_of(signed_in(bob).get(reverse("transfers:report", args=[report.pk])))
    assert "The member list is cut off or damaged." in text
