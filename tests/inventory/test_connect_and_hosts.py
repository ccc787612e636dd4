"""Adding, pinning, reaching and probing hosts, on a real sshd."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from django.conf import settings

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.audit.services import verify_chain
from calculet.leases.services import lease_acquire, lease_release
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.connect import ChannelMissing, installation_marker, open_remote
from inventory.models import Host, HostKey
from inventory.remote.base import HostKeyChanged, HostKeyUnknown, KeyUnusable, PathRefused
from inventory.remote.probe import ProbeReport
from inventory.services import hosts
from inventory.services.errors import FingerprintDiffers, InventoryError, NameTaken, ValueWrong
from tests.hosts import host_make, key_put
from tests.sshd import Sshd, make_key

pytestmark = pytest.mark.django_db

GOOD: dict[str, Any] = {
    "name": "far",
    "address": "192.0.2.1",
    "port": 22,
    "username": "user",
    "key_name": "",
    "staging_path": "/home/user/staging",
}


def acts() -> list[str]:
    return list(Event.objects.order_by("sequence").values_list("act", flat=True))


def test_an_added_host_has_a_channel_and_an_event(alice: Person) -> None:
    host = hosts.host_add(**GOOD, actor=Actor.of(alice))
    channel = host.channels.get()
    assert (str(channel), str(host.staging_path)) == ("user@192.0.2.1:22", "/home/user/staging")
    assert host.no_data_timeout_seconds == settings.NO_DATA_TIMEOUT_SECONDS
    assert acts() == ["host.added"] and Event.objects.get().host == "far"


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("name", "has space", ValueWrong),
        ("name", "-x", ValueWrong),
        ("name", "x" * 64, ValueWrong),
        ("address", "", ValueWrong),
        ("address", "two words", ValueWrong),
        ("port", 0, ValueWrong),
        ("port", 65536, ValueWrong),
        ("username", "a\nb", ValueWrong),
        ("lanes", 0, ValueWrong),
        ("no_data_timeout_seconds", 1, ValueWrong),
        ("staging_path", "relative/path", PathRefused),
        ("staging_path", "/", PathRefused),
        ("staging_path", "/home/../etc", PathRefused),
        ("key_name", "../../etc/passwd", KeyUnusable),
        ("key_name", "absent", KeyUnusable),
    ],
)
def test_a_wrong_value_adds_nothing(alice: Person, field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        hosts.host_add(**{**GOOD, field: value}, actor=Actor.of(alice))
    assert not Host.objects.exists() and not Event.objects.exists()


def test_a_key_with_a_passphrase_is_refused_with_what_to_do(alice: Person) -> None:
    settings.KEY_DIR.mkdir(parents=True, exist_ok=True)
    locked = settings.KEY_DIR / "locked"
    for path in (locked, locked.with_suffix(".pub")):
        path.unlink(missing_ok=True)
    make_key(locked, passphrase="secret")
    with pytest.raises(KeyUnusable, match="passphrase"):
        hosts.host_add(**{**GOOD, "key_name": "locked"}, actor=Actor.of(alice))
    assert not Host.objects.exists()


def test_a_name_is_taken_once(alice: Person) -> None:
    hosts.host_add(**GOOD, actor=Actor.of(alice))
    with pytest.raises(NameTaken, match="“far”"):
        hosts.host_add(**GOOD, actor=Actor.of(alice))
    assert acts() == ["host.added"]


def test_who_has_no_role_adds_and_pins_nothing(carol: Person, bob: Person, alice: Person) -> None:
    for person in (carol, bob):
        with pytest.raises(NotAllowed):
            hosts.host_add(**GOOD, actor=Actor.of(person))
    host = hosts.host_add(**GOOD, actor=Actor.of(alice))
    for call in (hosts.host_key_look, hosts.host_probe_request):
        with pytest.raises(NotAllowed):
            call(host=host, actor=Actor.of(carol))
    with pytest.raises(NotAllowed):
        hosts.host_pin_key(host=host, key_type="ssh-ed25519", blob=b"x", fingerprint="y", actor=Actor.of(carol))


def test_looking_shows_the_fingerprint_and_pins_nothing(sshd: Sshd, alice: Person) -> None:
    host = host_make(sshd, alice, pin=False)
    found = hosts.host_key_look(host=host, actor=Actor.of(alice))
    assert found.fingerprint == sshd.pinned.fingerprint
    assert not HostKey.objects.exists()


def test_nothing_is_sent_before_a_key_is_pinned(sshd: Sshd, alice: Person) -> None:
    host = host_make(sshd, alice, pin=False)
    with closing(open_remote(host)) as remote, pytest.raises(HostKeyUnknown) as raised:
        remote.run(b"true\n", step="try")
    assert sshd.pinned.fingerprint in str(raised.value)


def test_a_pinned_host_is_reached(sshd: Sshd, alice: Person) -> None:
    host = host_make(sshd, alice)
    with closing(open_remote(host)) as remote:
        assert remote.check(b"printf here\n", step="try") == b"here"
    assert acts() == ["host.added", "host.key_pinned"]


def test_pinning_needs_the_fingerprint_that_was_compared(sshd: Sshd, alice: Person) -> None:
    host, key = host_make(sshd, alice, pin=False), sshd.pinned
    with pytest.raises(FingerprintDiffers, match="Nothing was pinned"):
        hosts.host_pin_key(
            host=host, key_type=key.key_type, blob=key.blob, fingerprint="SHA256:other", actor=Actor.of(alice)
        )
    assert not HostKey.objects.exists()


def test_a_changed_host_key_is_a_problem_until_the_new_one_is_pinned(sshd: Sshd, alice: Person) -> None:
    host, old = host_make(sshd, alice), sshd.pinned.fingerprint
    sshd.change_host_key()
    sshd.restart()
    hosts.host_probe_run(host.pk)
    host.refresh_from_db()
    new = hosts.host_key_look(host=host, actor=Actor.of(alice))
    assert old in host.problem and new.fingerprint in host.problem and host.probed_at is None
    with closing(open_remote(host)) as remote, pytest.raises(HostKeyChanged):
        remote.run(b"true\n", step="try")

    hosts.host_pin_key(
        host=host, key_type=new.key_type, blob=new.blob, fingerprint=new.fingerprint, actor=Actor.of(alice)
    )
    hosts.host_probe_run(host.pk)
    host = Host.objects.get()
    assert host.problem == "" and host.probe is not None
    assert HostKey.objects.filter(retired_at__isnull=True).get().fingerprint == new.fingerprint
    assert HostKey.objects.filter(retired_at__isnull=False).get().fingerprint == old


def test_pinning_the_key_in_force_again_changes_nothing(sshd: Sshd, alice: Person) -> None:
    host, key = host_make(sshd, alice), sshd.pinned
    hosts.host_pin_key(
        host=host, key_type=key.key_type, blob=key.blob, fingerprint=key.fingerprint, actor=Actor.of(alice)
    )
    assert HostKey.objects.count() == 1 and acts().count("host.key_pinned") == 1


def test_a_probe_keeps_its_report(sshd: Sshd, alice: Person) -> None:
    host = host_make(sshd, alice)
    hosts.host_probe_run(host.pk)
    host.refresh_from_db()
    assert host.probe is not None and host.probed_at is not None
    assert ProbeReport.from_json(host.probe).has_stat_format
    assert acts()[-1] == "host.probed" and verify_chain().whole


def test_a_host_that_does_not_answer_is_a_problem_with_a_sentence(sshd: Sshd, alice: Person) -> None:
    host = host_make(sshd, alice)
    sshd.stop()
    hosts.host_probe_run(host.pk)
    host.refresh_from_db()
    assert "cannot be reached" in host.problem and acts()[-1] == "host.probe_failed"


def test_a_wrong_key_is_a_problem_with_a_sentence(sshd: Sshd, alice: Person) -> None:
    stranger = make_key(sshd.folder / "stranger")
    host = host_make(sshd, alice, key_name=key_put(stranger, f"stranger-{sshd.port}"))
    hosts.host_probe_run(host.pk)
    host.refresh_from_db()
    assert "did not let" in host.problem and "authorized_keys" in host.problem


def test_a_probe_that_another_worker_does_is_left_to_it(sshd: Sshd, alice: Person) -> None:
    host = host_make(sshd, alice)
    held = lease_acquire(name=hosts.probe_lease(host.pk))
    assert held is not None
    hosts.host_probe_run(host.pk)
    host.refresh_from_db()
    assert host.probe is None
    lease_release(held)
    hosts.host_probe_run(host.pk)
    host.refresh_from_db()
    assert host.probe is not None


def test_a_probe_of_a_host_that_is_gone_does_nothing(db: None) -> None:
    hosts.host_probe_run(4711)
    assert not Event.objects.exists()


def test_changing_a_host_says_what_changed_and_keeps_the_pinned_key(sshd: Sshd, alice: Person) -> None:
    host = host_make(sshd, alice)
    hosts.host_change(host=host, actor=Actor.of(alice), lanes=3, port=2222, note="moved")
    event = Event.objects.order_by("-sequence")[0]
    assert event.act == "host.changed" and '"lanes":{"from":8,"to":3}' in event.detail
    host.refresh_from_db()
    assert (host.lanes, host.note, host.channels.get().port) == (3, "moved", 2222)
    assert HostKey.objects.filter(retired_at__isnull=True).count() == 1
    hosts.host_change(host=host, actor=Actor.of(alice), lanes=3)
    assert acts().count("host.changed") == 1


@pytest.mark.parametrize("wrong", [{"lanes": 1000}, {"port": 0}, {"staging_path": "x"}, {"key_name": "absent"}])
def test_a_wrong_change_changes_nothing(alice: Person, wrong: dict[str, Any]) -> None:
    host = hosts.host_add(**GOOD, actor=Actor.of(alice))
    with pytest.raises((InventoryError, PathRefused, KeyUnusable)):
        hosts.host_change(host=host, actor=Actor.of(alice), note="new", **wrong)
    host.refresh_from_db()
    assert host.note == "" and acts() == ["host.added"]


def test_a_host_without_a_channel_says_so(alice: Person) -> None:
    host = hosts.host_add(**GOOD, actor=Actor.of(alice))
    host.channels.all().delete()
    with pytest.raises(ChannelMissing, match="no channel"):
        open_remote(host)


def test_the_marker_is_one_line_and_the_same_each_time() -> None:
    assert installation_marker() == installation_marker()
    assert b"\n" not in installation_marker() and len(installation_marker()) > 20


def test_two_servers_are_told_apart(make_sshd: Callable[..., Sshd], alice: Person) -> None:
    first, second = make_sshd(), make_sshd()
    host = host_make(first, alice)
    hosts.host_change(host=host, actor=Actor.of(alice), port=second.port)
    with closing(open_remote(host)) as remote, pytest.raises(HostKeyChanged):
        remote.run(b"true\n", step="try")
