"""The chain shows every way to tamper with it, and an export can be checked by anybody."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from calculet.actors import SYSTEM
from calculet.audit.chain import GENESIS
from calculet.audit.models import Event, Head
from calculet.audit.services import record, verify_chain

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


def test_an_empty_chain_is_whole() -> None:
    verdict = verify_chain()
    assert (verdict.whole, verdict.links, verdict.head) == (True, 0, GENESIS)


def test_an_untouched_chain_is_whole(chain: None) -> None:
    verdict = verify_chain()
    assert (verdict.whole, verdict.links) == (True, 5)
    assert verdict.head == Event.objects.get(sequence=5).hash == Head.objects.get().hash


def test_an_event_outside_a_transaction_is_refused(transactional_db: None) -> None:
    with pytest.raises(transaction.TransactionManagementError, match="must stand or fall together"):
        record(act="test.done", actor=SYSTEM)
    assert not Event.objects.exists()


def test_bytes_in_a_detail_are_refused() -> None:
    with pytest.raises(TypeError, match="not bytes"), transaction.atomic():
        record(act="test.done", actor=SYSTEM, detail={"name": b"\xff"})


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'mallory'",
        "act = 'test.undone'",
        "host = 'elsewhere'",
        "pack = 'another'",
        "detail = '{}'",
        "user_id = 7",
        "origin = '192.0.2.1'",
        "subject_kind = 'x'",
        "subject_id = '9'",
        "subject_label = 'y'",
        "at = '2020-01-01 00:00:00+00:00'",
    ],
)
def test_an_edited_event_is_named(tamper: Callable[..., None], change: str) -> None:
    tamper(f"UPDATE audit_event SET {change} WHERE sequence = 3")
    verdict = verify_chain()
    assert (verdict.broken_at, verdict.links) == (3, 2)
    assert "its content is not what was recorded" in str(verdict)


def test_an_edited_event_with_a_fitting_hash_is_named_by_the_next(tamper: Callable[..., None]) -> None:
    tamper(
        "UPDATE audit_event SET hash = repeat('a', 64) WHERE sequence = 3".replace("repeat('a', 64)", f"'{'a' * 64}'")
    )
    assert verify_chain().broken_at == 3
    third = Event.objects.get(sequence=3)
    body = {
        name: getattr(third, name)
        for name in (
            "act",
            "actor",
            "detail",
            "host",
            "origin",
            "pack",
            "subject_id",
            "subject_kind",
            "subject_label",
            "user_id",
        )
    }
    body |= {"actor": "mallory", "sequence": 3, "at": third.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    text = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    forged = hashlib.sha256(f"{third.previous_hash}\n{text}".encode("ascii")).hexdigest()
    tamper(f"UPDATE audit_event SET actor = 'mallory', hash = '{forged}' WHERE sequence = 3")
    verdict = verify_chain()
    assert (verdict.broken_at, verdict.reason) == (4, "it does not follow from the event before it.")


def test_a_removed_event_is_named(tamper: Callable[..., None]) -> None:
    tamper("DELETE FROM audit_event WHERE sequence = 2")
    verdict = verify_chain()
    assert verdict.broken_at == 2
    assert "event 2 is missing; event 3 stands in its place" in str(verdict)


def test_a_removed_last_event_is_told_by_the_head(tamper: Callable[..., None]) -> None:
    tamper("DELETE FROM audit_event WHERE sequence = 5")
    verdict = verify_chain()
    assert (verdict.broken_at, verdict.links) == (5, 4)
    assert "the last ones were removed" in str(verdict)


def test_removing_everything_is_told_by_the_head(tamper: Callable[..., None]) -> None:
    tamper("DELETE FROM audit_event")
    verdict = verify_chain()
    assert (verdict.broken_at, verdict.links) == (1, 0)


def test_a_missing_head_is_told(tamper: Callable[..., None]) -> None:
    tamper("DELETE FROM audit_head")
    assert "the head of the chain is missing" in str(verify_chain())


def test_events_that_changed_places_are_named(tamper: Callable[..., None]) -> None:
    tamper(
        "UPDATE audit_event SET sequence = 100 WHERE sequence = 2",
        "UPDATE audit_event SET sequence = 2 WHERE sequence = 3",
        "UPDATE audit_event SET sequence = 3 WHERE sequence = 100",
    )
    verdict = verify_chain()
    assert (verdict.broken_at, verdict.links) == (2, 1)


def test_a_cut_chain_with_a_fitting_head_is_caught_by_a_hash_kept_elsewhere(tamper: Callable[..., None]) -> None:
    kept = Head.objects.get().hash
    fourth = Event.objects.get(sequence=4).hash
    tamper(
        "DELETE FROM audit_event WHERE sequence = 5",
        f"UPDATE audit_head SET sequence = 4, hash = '{fourth}'",
    )
    assert verify_chain().whole, "in itself the shorter chain holds: that is why hashes are kept elsewhere"
    with pytest.raises(CommandError, match=f"none of its events has the hash {kept}"):
        call_command("verify_audit", "--head", kept)
    call_command("verify_audit", "--head", fourth, stdout=StringIO())


def test_verify_audit_says_that_the_chain_is_whole(chain: None) -> None:
    out = StringIO()
    call_command("verify_audit", stdout=out)
    assert out.getvalue() == f"The audit chain is whole: 5 events, head {Head.objects.get().hash}.\n"


def test_verify_audit_names_the_first_broken_link(tamper: Callable[..., None]) -> None:
    tamper("UPDATE audit_event SET detail = '{}' WHERE sequence >= 2")
    with pytest.raises(CommandError, match="broken at event 2") as caught:
        call_command("verify_audit")
    assert caught.value.returncode == 1


@pytest.fixture
def exported(chain: None, tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    call_command("export_audit", str(path), stdout=StringIO())
    return path


def test_an_export_holds_every_event_and_its_own_record_last(exported: Path) -> None:
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[-1]["act"] == "audit.exported"
    assert exported.stat().st_mode & 0o777 == 0o600


def test_a_stranger_can_check_an_export_with_the_standard_library(exported: Path) -> None:
    before = "0" * 64
    for line in exported.read_text().splitlines():
        event = json.loads(line)
        found, previous = event.pop("hash"), event.pop("previous_hash")
        text = json.dumps(event, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        assert previous == before
        assert hashlib.sha256(f"{previous}\n{text}".encode("ascii")).hexdigest() == found
        before = found


def test_verify_audit_checks_an_export(exported: Path) -> None:
    out = StringIO()
    call_command("verify_audit", "--export", str(exported), stdout=out)
    assert "whole: 6 events" in out.getvalue()
    lines = exported.read_text().splitlines(keepends=True)
    exported.write_text("".join([*lines[:2], lines[2].replace('"host":"lab"', '"host":"bal"'), *lines[3:]]))
    with pytest.raises(CommandError, match="broken at event 3"):
        call_command("verify_audit", "--export", str(exported))


@pytest.mark.parametrize("line", ["not json", "[]", "{}", '{"at": "yesterday"}', '{"at": 3}'])
def test_a_line_that_is_no_event_is_named(exported: Path, line: str) -> None:
    lines = exported.read_text().splitlines(keepends=True)
    exported.write_text("".join([*lines[:3], f"{line}\n", *lines[4:]]))
    with pytest.raises(CommandError, match="Line 4 of the export is not an event"):
        call_command("verify_audit", "--export", str(exported))


def test_an_export_never_overwrites_a_file(exported: Path) -> None:
    kept = exported.read_bytes()
    with pytest.raises(CommandError, match="is there already"):
        call_command("export_audit", str(exported))
    assert exported.read_bytes() == kept
    assert Event.objects.count() == 6, "a refused export is no event"
