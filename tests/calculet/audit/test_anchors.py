"""The head of the chain, kept outside the database: written once a day, signed, and compared with the chain."""

from __future__ import annotations

import stat
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from calculet.actors import SYSTEM
from calculet.audit.anchoring import ANCHORED, LEASE, anchor_now, anchor_run, anchors_due, line_of
from calculet.audit.anchors import AnchorFileWrong, AnchorLine, Signature, anchor_append, anchors_read, signature_state
from calculet.audit.models import Anchor, Event, Head, Walk
from calculet.audit.tasks import anchor_chain
from calculet.audit.walks import anchor_file, chain_follow, chain_verify, verdict_now
from calculet.celery import app
from calculet.leases.services import lease_acquire
from calculet.people.models import Person
from tests.calculet.audit.conftest import cut, today
from transfers.tasks import tick

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

LINE = AnchorLine(datetime(2026, 3, 1, 0, 0, 2, tzinfo=UTC), 7, "ab" * 32)


def test_an_anchor_is_made_once_a_day_and_its_line_is_synced_for_all_to_read(chain: None, file: Path) -> None:
    head = Head.objects.get()
    assert anchors_due() == [today()]
    anchor_run(today())
    anchor_run(today())  # another beat
    assert anchors_due() == []
    anchor = Anchor.objects.get()
    assert (anchor.sequence, anchor.hash) == (head.sequence, head.hash) == (5, Event.objects.get(sequence=5).hash)
    assert file.read_text() == f"{line_of(anchor)}\n"
    assert [(line.sequence, line.hash) for line in anchors_read(file)] == [(5, head.hash)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [event.act for event in Event.objects.filter(sequence__gt=5)] == [ANCHORED]


@pytest.mark.django_db(transaction=True)
def test_two_beats_at_once_write_one_anchor(chain: None, file: Path) -> None:
    together = threading.Barrier(2)

    def beat() -> None:
        together.wait(timeout=30)
        try:
            anchor_run(today())
        finally:
            connection.close()

    beats = [threading.Thread(target=beat) for _number in range(2)]
    for thread in beats:
        thread.start()
    for thread in beats:
        thread.join(timeout=60)
    assert Anchor.objects.count() == 1 and len(anchors_read(file)) == 1
    assert Event.objects.filter(act=ANCHORED).count() == 1


def test_the_tick_follows_the_chain_and_sends_for_the_anchor(chain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, tuple[int, ...]]] = []
    monkeypatch.setattr("transfers.tasks._hint", lambda task, ids: sent.append((task.name, ids)))
    tick()
    assert ("calculet.audit.tasks.anchor_chain", (today(),)) in sent
    assert Walk.objects.get().sequence == 5
    assert app.conf.task_routes["calculet.audit.tasks.anchor_chain"] == {"queue": "crunch"}
    anchor_chain(today())
    sent.clear()
    tick()
    assert ("calculet.audit.tasks.anchor_chain", ()) in sent
    assert Walk.objects.get().sequence == 6


def test_the_next_day_gets_its_own(chain: None, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor_run(today())
    tomorrow = timezone.now() + timedelta(days=1)
    monkeypatch.setattr(timezone, "now", lambda: tomorrow)
    assert anchors_due() == [today()]
    anchor_run(today())
    assert [line.sequence for line in anchors_read(file)] == [5, 6]


def test_an_empty_log_is_not_anchored() -> None:
    assert anchors_due() == []


def test_while_another_worker_anchors_nothing_is_done(chain: None, file: Path) -> None:
    assert lease_acquire(name=LEASE) is not None
    anchor_run(today())
    assert not file.exists() and not Anchor.objects.exists()
    with pytest.raises(CommandError, match="Another process anchors"):
        call_command("anchor_audit")


def test_a_kill_between_row_and_file_leaves_one_line(chain: None, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("calculet.audit.delivery.write", lambda _line: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            anchor_run(today())
    assert anchors_due() == [today()]
    anchor_run(today())
    Anchor.objects.update(written_at=None)  # killed after the line, before the row told it
    anchor_run(today())
    assert file.read_text() == f"{line_of(Anchor.objects.get())}\n"


def test_cutting_the_newest_events_is_named_by_the_anchor(tamper: Callable[..., None], file: Path) -> None:
    anchor_now(actor=SYSTEM)
    cut(tamper, 3)
    verdict = verdict_now()
    assert (verdict.broken_at, verdict.links) == (4, 3)
    assert "events 4 to 5 were cut off: the anchor of" in str(verdict)
    with pytest.raises(CommandError, match="broken at event 4: events 4 to 5 were cut off"):
        call_command("verify_audit")
    copy = file.rename(file.with_name("copy.txt"))  # who owns the machine may remove the file, but not every copy
    call_command("verify_audit", stdout=StringIO())
    with pytest.raises(CommandError, match="events 4 to 5 were cut off"):
        call_command("verify_audit", "--anchors", str(copy))


def test_a_chain_written_anew_is_named_by_the_anchor(tamper: Callable[..., None], file: Path) -> None:
    anchor_append(file, str(AnchorLine(timezone.now(), 3, "cd" * 32)))
    verdict = verdict_now()
    assert (verdict.broken_at, verdict.links) == (3, 2)
    assert "the chain was written anew up to it or before" in str(verdict)


def test_a_broken_chain_is_not_anchored_and_is_told_once(
    tamper: Callable[..., None], file: Path, audrey: Person
) -> None:
    tamper("UPDATE audit_event SET actor = 'mallory' WHERE sequence = 2")
    anchor_run(today())
    assert not file.exists() and not Anchor.objects.exists() and anchors_due() == []
    assert Walk.objects.get().broken_at == 2
    assert [event.act for event in Event.objects.filter(sequence__gt=5)] == ["audit.found_broken"]
    with pytest.raises(CommandError, match=r"broken at event 2.*It was not anchored"):
        call_command("anchor_audit")
    assert Event.objects.count() == 6
    tamper("UPDATE audit_event SET actor = 'system' WHERE sequence = 2")
    chain_follow()
    assert Walk.objects.get().broken_at == 2, "only a whole walk takes it back"
    assert chain_verify(actor=_actor(audrey)).whole
    assert Walk.objects.get().broken_at is None and anchors_due() == [today()]


def _actor(person: Person) -> Any:
    return type(SYSTEM).of(person)


def test_an_anchor_is_signed_and_anybody_can_check_it_with_openssl(
    chain: None, key: Ed25519PrivateKey, file: Path, tmp_path: Path
) -> None:
    call_command("anchor_audit", stdout=StringIO())
    guide = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text()
    script = guide[guide.index('printf %s "$(cut') :].partition("```")[0]
    (tmp_path / "LINE").write_text(file.read_text())
    (tmp_path / "public.pem").rename(tmp_path / "PUBLIC.pem")
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "LINE").write_text(file.read_text().replace(" 5 ", " 6 "))
    assert subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=False, capture_output=True).returncode != 0
    out = StringIO()
    call_command("verify_audit", "--public-key", str(tmp_path / "PUBLIC.pem"), stdout=out)
    assert "It holds what its 1 anchors say" in out.getvalue()


def test_every_change_of_a_signed_line_is_seen(key: Ed25519PrivateKey, chain: None, file: Path, tmp_path: Path) -> None:
    anchor_now(actor=SYSTEM)
    ours = [key.public_key().public_bytes_raw().hex()]
    [good] = anchors_read(file)
    assert signature_state(good, ours) is Signature.GOOD
    assert signature_state(good, []) is Signature.OTHER_KEY
    text = str(good)
    for place in range(len("anchor "), len(text)):
        changed = text[:place] + ("1" if text[place] != "1" else "2") + text[place + 1 :]
        file.write_text(f"{changed}\n")
        try:
            [found] = anchors_read(file)
        except AnchorFileWrong:
            continue
        assert signature_state(found, ours) is not Signature.GOOD, changed
    file.write_text(f"{good.statement}\n")  # the signature was taken off
    with pytest.raises(CommandError, match="is not proven by the key: not signed"):
        call_command("verify_audit", "--public-key", str(tmp_path / "public.pem"))


@pytest.mark.parametrize(
    ("mode", "content", "reason"),
    [
        (0o644, None, "other accounts can read it"),
        (0o600, b"no key", "does not hold an Ed25519 private key"),
        (0o600, b"", "does not hold an Ed25519 private key"),
    ],
)
def test_a_key_that_cannot_be_used_leaves_an_unsigned_anchor_that_says_why(
    chain: None, key: Ed25519PrivateKey, tmp_path: Path, mode: int, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "anchor-key.pem"
    if content is not None:
        path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(CommandError, match=reason):
        call_command("anchor_audit", stdout=StringIO())
    anchor = Anchor.objects.get()
    assert anchor.signature == "" and reason in anchor.unsigned_because and anchor.written_at is not None


def test_a_key_as_ssh_keygen_makes_it_signs_as_well(chain: None, settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    settings.ANCHOR_KEY_FILE = str(path)
    anchor_now(actor=SYSTEM)
    call_command("verify_audit", "--public-key", f"{path}.pub", stdout=StringIO())


@pytest.mark.parametrize("rest", [b"", b"anchor 2026-03-01T00:0"])
def test_a_line_that_a_power_cut_left_half_is_written_again(file: Path, rest: bytes) -> None:
    before = AnchorLine(datetime(2026, 2, 28, tzinfo=UTC), 3, "cd" * 32)
    file.write_bytes(str(before).encode() + b"\n" + rest)
    for _attempt in range(2):
        anchor_append(file, str(LINE))
    assert anchors_read(file) == [before, LINE]


@pytest.mark.parametrize("line", ["anchor", "something else", "anchor 2026-13-01T00:00:02.000000Z 7 " + "ab" * 32, "é"])
def test_a_line_that_is_no_anchor_is_named(file: Path, line: str) -> None:
    file.write_text(f"{line}\n{LINE}\n" if line != "anchor" else f"{LINE}\n{line}\n")
    with pytest.raises(AnchorFileWrong):
        anchors_read(file)
    assert verdict_now().broken_at == 1
    with pytest.raises(CommandError, match="The anchor file"):
        call_command("verify_audit")


def test_a_link_in_the_place_of_the_file_is_not_followed(file: Path, tmp_path: Path) -> None:
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AnchorFileWrong):
        anchor_append(file, str(LINE))
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_mounted_is_told_and_tried_again(chain: None, settings: Settings, tmp_path: Path) -> None:
    settings.ANCHOR_DIR = tmp_path / "away"
    anchor_run(today())
    anchor = Anchor.objects.get()
    assert "is not there; mount its disk" in anchor.problem and anchors_due() == []
    (tmp_path / "away").mkdir()
    Anchor.objects.update(not_before=timezone.now())
    assert anchors_due() == [today()]
    anchor_run(today())
    assert Anchor.objects.get().problem == "" and anchors_read(anchor_file())[0].sequence == 5


def test_pages_show_the_anchors_and_what_became_of_them(
    tamper: Callable[..., None],
    key: Ed25519PrivateKey,
    file: Path,
    audrey: Person,
    signed_in: Callable[[Person], Client],
) -> None:
    anchor_now(actor=SYSTEM)
    browser = signed_in(audrey)
    page = browser.get("/audit/chain/").text
    for words in ("still there</span>", "signed</span>", "written</span>", str(file), "made by hand"):
        assert words in page
    cut(tamper, 3)
    file.unlink()
    page = browser.get("/audit/chain/").text
    assert "gone or changed</span>" in page and "gone from the file</span>" in page
