"""Hosts' pages: added, looked at, pinned and probed."""

from __future__ import annotations

import html
import re

import pytest
from django.urls import reverse
from django.utils import timezone

from calculet.leases.services import lease_acquire
from calculet.people.models import Person
from inventory.models import Host, HostKey
from inventory.services import hosts
from tests.hosts import host_make, key_put
from tests.inventory.browser import SignedIn, act_of, key_of
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db


# -- hosts -------------------------------------------------------------------------------------------------------------


def test_a_host_is_added_looked_at_pinned_and_probed_in_the_browser(
    sshd: Sshd, signed_in: SignedIn, alice: Person
) -> None:
    client, add = signed_in(alice), reverse("inventory:host-add")
    key = key_put(sshd.key_path, f"browser-{sshd.port}")
    values = {
        "name": "far",
        "address": "127.0.0.1",
        "port": sshd.port,
        "username": sshd.username,
        "key_name": key,
        "staging_path": str(sshd.home / "staging"),
        "lanes": 8,
        "no_data_timeout_seconds": 600,
    }
    page = act_of(client, add, add, **values)
    assert "Look at its key next" in page.text and "no key pinned" in page.text

    looked = client.post(reverse("inventory:host-look", args=["far"]))
    assert sshd.pinned.fingerprint in html.unescape(looked.text) and not HostKey.objects.exists()
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in looked.text
    fields = dict(re.findall(r'name="(act_key|key_type|blob|fingerprint)" value="([^"]+)"', looked.text))
    pinned = client.post(
        reverse("inventory:host-pin", args=["far"]), {k: html.unescape(v) for k, v in fields.items()}, follow=True
    )
    assert "The key is pinned" in pinned.text and HostKey.objects.get().fingerprint == sshd.pinned.fingerprint
    assert "hx-trigger" in pinned.text  # a probe follows by itself

    host = Host.objects.get()
    hosts.host_probe_run(host.pk)
    shown = client.get(reverse("inventory:host", args=["far"])).text
    assert "free at" in shown and "Linux" in shown and "hx-trigger" not in shown
    looked = client.post(reverse("inventory:host-look", args=["far"]))
    assert "This is the key that is pinned" in looked.text and "act_key" not in looked.text


def test_a_changed_key_is_shown_with_both_fingerprints(sshd: Sshd, signed_in: SignedIn, alice: Person) -> None:
    host_make(sshd, alice)
    old = sshd.pinned.fingerprint
    sshd.change_host_key()
    sshd.restart()
    page = html.unescape(signed_in(alice).post(reverse("inventory:host-look", args=["far"])).text)
    assert old in page and len(set(re.findall(r"SHA256:[A-Za-z0-9+/]{43}", page))) == 2
    assert "not the key that is pinned" in page


@pytest.mark.parametrize(
    "fields", [{}, {"blob": "!!"}, {"blob": "YQ==", "key_type": "ssh-ed25519", "fingerprint": "SHA256:x"}]
)
def test_a_pin_form_that_does_not_fit_pins_nothing(
    host: Host, signed_in: SignedIn, alice: Person, fields: dict[str, str]
) -> None:
    client = signed_in(alice)
    key = key_of(client, reverse("inventory:host-change", args=["far"]))
    page = client.post(reverse("inventory:host-pin", args=["far"]), {"act_key": key, **fields}, follow=True)
    assert "Nothing was pinned" in page.text and not HostKey.objects.exists()


def test_a_host_that_is_off_is_said_when_looking(sshd: Sshd, signed_in: SignedIn, alice: Person) -> None:
    host_make(sshd, alice)
    sshd.stop()
    page = signed_in(alice).post(reverse("inventory:host-look", args=["far"]), follow=True)
    assert "cannot be reached" in page.text


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": "two words"}, "cannot be a host's name"),
        ({"name": "far"}, "called “far” already"),
        ({"staging_path": "relative"}, "must be absolute"),
        ({"key_name": "../secret"}, "Select a valid choice"),
        ({"port": "0"}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_host_form_says_why_and_adds_nothing(
    host: Host, signed_in: SignedIn, alice: Person, values: dict[str, str], sentence: str
) -> None:
    client, add = signed_in(alice), reverse("inventory:host-add")
    given = {
        "name": "new",
        "address": "192.0.2.2",
        "port": 22,
        "username": "user",
        "key_name": "",
        "staging_path": "/s/t",
        "lanes": 8,
        "no_data_timeout_seconds": 600,
        **values,
    }
    page = act_of(client, add, add, **given)
    assert page.status_code == 422 and sentence in html.unescape(page.text) and Host.objects.count() == 1


def test_a_host_is_changed_in_the_browser(host: Host, signed_in: SignedIn, alice: Person) -> None:
    client, change = signed_in(alice), reverse("inventory:host-change", args=["far"])
    assert "192.0.2.1" in client.get(change).text
    given = {"address": "192.0.2.9", "port": 22, "username": "user", "key_name": "", "staging_path": "/s/t", "lanes": 3}
    act_of(client, change, change, **given, no_data_timeout_seconds=60, note="moved")
    host.refresh_from_db()
    assert (host.lanes, host.no_data_timeout_seconds, host.channels.get().address) == (3, 60, "192.0.2.9")


def test_a_hosts_problem_and_missing_steps_are_told_in_sentences(
    host: Host, signed_in: SignedIn, alice: Person
) -> None:
    Host.objects.update(problem="The host is <away>.")
    client = signed_in(alice)
    for page in (reverse("inventory:host", args=["far"]), reverse("inventory:hosts")):
        assert "The host is &lt;away&gt;." in client.get(page).text


def test_the_host_page_waits_for_a_probe_that_runs_or_was_just_asked_for(
    host: Host, signed_in: SignedIn, alice: Person
) -> None:
    client, page = signed_in(alice), reverse("inventory:host", args=["far"])
    now = int(timezone.now().timestamp())
    assert "hx-trigger" not in client.get(page).text
    assert "hx-trigger" in client.get(page, {"asked": now}).text
    assert "hx-trigger" not in client.get(page, {"asked": now - 3600}).text
    assert "hx-trigger" not in client.get(page, {"asked": now + 3600}).text
    assert "hx-trigger" not in client.get(page, {"asked": "x" * 30}).text
    assert lease_acquire(name=hosts.probe_lease(host.pk)) is not None
    assert "hx-trigger" in client.get(page).text


def test_a_probe_is_asked_for_once_per_form(sshd: Sshd, signed_in: SignedIn, alice: Person) -> None:
    host_make(sshd, alice)
    client, page = signed_in(alice), reverse("inventory:host", args=["far"])
    assert "A probe is asked for" in act_of(client, page, reverse("inventory:host-probe", args=["far"])).text
    assert "without its key" in client.post(reverse("inventory:host-probe", args=["far"])).text
