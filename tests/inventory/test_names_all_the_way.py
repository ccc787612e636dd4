"""Any byte string as a name: on the host, through the scan, the database, the page, every export, and back in."""

from __future__ import annotations

import html
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Entry, Host, Resource, ScanState
from inventory.remote.base import Remote
from inventory.remote.names import unescape
from inventory.services import list_imports, resources, scans
from tests.fakes import MemoryRemote, SftpOnlyRemote
from tests.inventory.browser import SignedIn
from tests.parts import need
from tests.sshd import busybox_folder

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
FOLDER = b"d\xff\n"
READ_BACK = ("sums", "csv", "lsjson", "mtree", "find")

part = st.binary(min_size=1, max_size=60).filter(
    lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..", FOLDER)
)


@pytest.fixture(scope="module")
def applets(tmp_path_factory: pytest.TempPathFactory) -> str:
    need("busybox", "sshd")
    return str(busybox_folder(tmp_path_factory.mktemp("busybox") / "applets"))


@given(found=st.lists(part, min_size=1, max_size=8, unique=True), sort=st.sampled_from(["GNU", "BusyBox", "SFTP"]))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_name_comes_through_as_it_is(
    host: Host, alice: Person, signed_in: SignedIn, applets: str, found: list[bytes], sort: str
) -> None:
    top = Path(tempfile.mkdtemp())
    makers: dict[str, Callable[[], Remote]] = {
        "GNU": lambda: MemoryRemote(top),
        "BusyBox": lambda: MemoryRemote(top, path=applets, shell=f"{applets}/sh"),
        "SFTP": lambda: SftpOnlyRemote(top),
    }
    try:
        lay(top / "tree", found)
        Host.objects.update(probe=None)
        expected = {b"", FOLDER, *found, *(FOLDER + b"/" + name for name in found)}
        row = scanned(host, alice, top / "tree", makers[sort])
        scan = row.scans.get()
        assert {entry.name.raw for entry in scan.entries.all()} == expected
        client = signed_in(alice)
        assert set(found) <= names_shown(client, scan.pk, "")
        key = next(key for key in keys_shown(client, scan.pk) if unescape(key) == FOLDER)
        assert set(found) <= names_shown(client, scan.pk, key)
        go_out_and_in(client, host, alice, scan.pk, expected - {b"", FOLDER})
    finally:
        Resource.objects.all().delete()
        shutil.rmtree(top)


def lay(top: Path, found: list[bytes]) -> None:
    (top / os.fsdecode(FOLDER)).mkdir(parents=True)
    for name in found:
        (top / os.fsdecode(name)).write_bytes(b"1")
        (top / os.fsdecode(FOLDER) / os.fsdecode(name)).write_bytes(b"2")


def scanned(host: Host, person: Person, top: Path, remote: Callable[[], Remote]) -> Resource:
    row = resources.resource_add(host=host, name="tree", path=str(top), kind="folder", actor=Actor.of(person))
    scan = scans.scan_request(resource=row, actor=Actor.of(person))
    with mock.patch.object(scans, "open_remote", lambda _host: remote()):
        scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    return row


def page(client: Client, scan_id: int, key: str) -> str:
    return client.get(reverse("inventory:entries", args=[scan_id]), {"in": key} if key else {}).text


def names_shown(client: Client, scan_id: int, key: str) -> set[bytes]:
    """What a person may read there, turned back into bytes."""
    shown = re.findall(r'<span class="name">(.*?)</span>', page(client, scan_id, key), re.DOTALL)
    return {unescape(html.unescape(text)) for text in shown}


def keys_shown(client: Client, scan_id: int) -> set[str]:
    """The folders that the page leads to, as their links name them."""
    links = re.findall(r'href="[^"]*\?in=([^"&]*)"', page(client, scan_id, ""))
    return {unquote(html.unescape(link)) for link in links}


def go_out_and_in(client: Client, host: Host, person: Person, scan_id: int, expected: set[bytes]) -> None:
    """Each export holds every name, and imported again the same ones."""
    Entry.objects.filter(scan=scan_id, kind="file").update(sha256=b"\x07" * 32)
    for name in READ_BACK:
        content = exported(client, scan_id, name)
        looked = list_imports.list_preview(
            host=host, content=content, actor=Actor.of(person), resource_name=f"by {name}", file_name=f"x.{name}",
            format_name=name, root="/srv",
        )  # fmt: skip
        scan = list_imports.list_import(imported=looked, digest=looked.digest, actor=Actor.of(person))
        assert {entry.name.raw for entry in scan.entries.filter(kind="file")} == expected, name
    assert set(exported(client, scan_id, "files0").split(b"\0")) >= expected


def exported(client: Client, scan_id: int, name: str) -> bytes:
    answer: Any = client.get(reverse("inventory:scan-export", args=[scan_id]), {"format": name})
    return b"".join(answer.streaming_content)
