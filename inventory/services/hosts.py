"""Writes about hosts: adding and changing them, pinning their keys, probing what they have."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit.services import record
from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_hold, lease_release
from calculet.lifecycle import SYSTEM, Actor
from calculet.people.roles import Act, require
from inventory.connect import channel_of, open_remote, pinned_of
from inventory.models import Channel, Host, HostKey
from inventory.remote.base import RemoteError
from inventory.remote.hostkeys import PinnedKey
from inventory.remote.keys import allowed_key_path, load_key_file
from inventory.remote.names import RemoteName
from inventory.remote.pool import fetch_host_key
from inventory.remote.probe import ProbeReport, probe
from inventory.remote.staging import refuse_unsafe_staging
from inventory.services.errors import FingerprintDiffers, NameTaken, ValueWrong

LOOK_SECONDS = 15.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_ONE_WORD = re.compile(r"[^\s\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class FoundKey:
    """The host key that a server shows, not trusted by anybody yet."""

    key_type: str
    blob: bytes
    fingerprint: str


def host_add(
    *,
    name: str,
    address: str,
    port: int,
    username: str,
    key_name: str,
    staging_path: RemoteName | str,
    actor: Actor,
    note: str = "",
    lanes: int = 8,
    no_data_timeout_seconds: int | None = None,
) -> Host:
    """Add a host with one direct SSH channel. `key_name` is a file in the key directory; empty means the agent.

    Nothing is asked over the network, and no host key is pinned. Raises NotAllowed, ValueWrong, NameTaken,
    KeyUnusable, PathRefused.
    """
    require(actor.user, Act.HOST_MANAGE)
    silence = settings.NO_DATA_TIMEOUT_SECONDS if no_data_timeout_seconds is None else no_data_timeout_seconds
    staging = RemoteName.from_text(staging_path) if isinstance(staging_path, str) else staging_path
    _refuse_name(name)
    _refuse_host_values(staging, lanes, silence)
    _refuse_channel_values(address, port, username, key_name)
    try:
        with transaction.atomic():
            host = Host.objects.create(
                name=name, note=note, staging_path=staging, lanes=lanes, no_data_timeout_seconds=silence
            )
            Channel.objects.create(host=host, address=address, port=port, username=username, key_name=key_name)
            detail = {
                "address": address,
                "port": port,
                "username": username,
                "key": key_name or "agent",
                "staging_path": staging,
                "lanes": lanes,
            }
            record(act="host.added", actor=actor, subject=host, detail=detail)
    except IntegrityError as error:
        raise NameTaken("host", name) from error
    return host


def host_change(
    *,
    host: Host,
    actor: Actor,
    address: str | None = None,
    port: int | None = None,
    username: str | None = None,
    key_name: str | None = None,
    staging_path: RemoteName | str | None = None,
    note: str | None = None,
    lanes: int | None = None,
    no_data_timeout_seconds: int | None = None,
) -> Host:
    """Change what is given of a host and its first channel; a pinned key stays in force, so another machine is noticed.

    No event is written when nothing differs. Raises NotAllowed, ValueWrong, KeyUnusable, PathRefused, ChannelMissing.
    """
    require(actor.user, Act.HOST_MANAGE)
    staging = RemoteName.from_text(staging_path) if isinstance(staging_path, str) else staging_path
    channel = channel_of(host)
    changed_host = _differing(
        host,
        staging_path=staging,
        note=note,
        lanes=lanes,
        no_data_timeout_seconds=no_data_timeout_seconds,
    )
    changed_channel = _differing(channel, address=address, port=port, username=username, key_name=key_name)
    _refuse_host_values(
        changed_host.get("staging_path", host.staging_path),
        changed_host.get("lanes", host.lanes),
        changed_host.get("no_data_timeout_seconds", host.no_data_timeout_seconds),
    )
    if changed_channel:
        values = {name: getattr(channel, name) for name in ("address", "port", "username", "key_name")}
        _refuse_channel_values(**{**values, **changed_channel})
    detail = {
        field: {"from": getattr(row, field), "to": value}
        for row, changed in ((host, changed_host), (channel, changed_channel))
        for field, value in changed.items()
    }
    if detail:
        with transaction.atomic():
            _apply(host, changed_host)
            _apply(channel, changed_channel)
            record(act="host.changed", actor=actor, subject=host, detail=detail)
    return host


def host_key_look(*, host: Host, actor: Actor) -> FoundKey:
    """Ask the server over the network which host key it shows; signs in nowhere and pins nothing.

    Raises NotAllowed, ChannelMissing, HostUnreachable, ConnectionRefused, ProtocolMismatch.
    """
    require(actor.user, Act.HOST_PIN)
    channel = channel_of(host)
    shown = fetch_host_key(channel.address, channel.port, LOOK_SECONDS)
    return FoundKey(shown.key_type, shown.blob, shown.fingerprint)


def host_pin_key(*, host: Host, key_type: str, blob: bytes, fingerprint: str, actor: Actor) -> HostKey:
    """Pin a host key that a person compared; the key in force until now is retired and kept.

    Pinning the key that is in force changes nothing. Raises NotAllowed, FingerprintDiffers, ChannelMissing.
    """
    require(actor.user, Act.HOST_PIN)
    key = PinnedKey(key_type, blob)
    if key.fingerprint != fingerprint:
        raise FingerprintDiffers(fingerprint, key.fingerprint)
    with transaction.atomic():
        channel = Channel.objects.select_for_update().get(pk=channel_of(host).pk)
        before, now = pinned_of(channel), timezone.now()
        if before is not None and (before.key_type, bytes(before.blob)) == (key_type, blob):
            return before
        if before is not None:
            HostKey.objects.filter(pk=before.pk).update(retired_at=now)
        pinned = HostKey.objects.create(
            channel=channel,
            key_type=key_type,
            blob=blob,
            fingerprint=fingerprint,
            pinned_by=actor.user,
            pinned_at=now,
        )
        _apply(host, {"problem": ""})
        detail = {"key_type": key_type, "fingerprint": fingerprint, "address": channel.address, "port": channel.port}
        if before is not None:
            detail["replaces"] = before.fingerprint
        record(act="host.key_pinned", actor=actor, subject=host, detail=detail)
    return pinned


def host_probe_request(*, host: Host, actor: Actor) -> None:
    """Record that a person asked for a probe; the caller sends `tasks.probe_host`. Raises NotAllowed."""
    require(actor.user, Act.HOST_MANAGE)
    with transaction.atomic():
        record(act="host.probe_asked", actor=actor, subject=host)


def host_probe_run(host_id: int) -> None:
    """Probe a host and keep the report; a failure is kept as the host's problem. May run twice."""
    host = Host.objects.filter(pk=host_id).first()
    held = lease_acquire(name=probe_lease(host_id)) if host is not None else None
    if host is None or held is None:
        return
    try:
        try:
            with closing(open_remote(host)) as remote:
                report = probe(remote, host.staging_path)
        except RemoteError as error:
            _probe_failed(host, held, str(error))
        else:
            _probe_succeeded(host, held, report)
    except LeaseTaken:
        return  # another worker probes by now, and its report is the younger one
    finally:
        lease_release(held)


def probe_lease(host_id: int) -> str:
    """The name of the lease under which a host is probed."""
    return f"probe:{host_id}"


def host_problem_keep(*, host_id: int, problem: str) -> None:
    """Keep the sentence that stopped work on a host; empty when it is well again. Part of a larger act."""
    Host.objects.filter(pk=host_id).exclude(problem=problem).update(problem=problem)


def _probe_succeeded(host: Host, held: Held, report: ProbeReport) -> None:
    with transaction.atomic():
        lease_hold(held)
        _apply(host, {"probe": report.as_json(), "probed_at": timezone.now(), "problem": ""})
        record(act="host.probed", actor=SYSTEM, subject=host, detail={"missing": list(report.missing_steps())})


def _probe_failed(host: Host, held: Held, problem: str) -> None:
    with transaction.atomic():
        lease_hold(held)
        _apply(host, {"problem": problem})
        record(act="host.probe_failed", actor=SYSTEM, subject=host, detail={"problem": problem})


def _differing(row: Host | Channel, **wanted: Any) -> dict[str, Any]:
    return {field: value for field, value in wanted.items() if value is not None and value != getattr(row, field)}


def _apply(row: Host | Channel, changed: dict[str, Any]) -> None:
    """Write some fields of a row and nothing else, so that what others write meanwhile stays."""
    if changed:
        type(row)._base_manager.filter(pk=row.pk).update(**changed)
        for field, value in changed.items():
            setattr(row, field, value)


def _refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueWrong(
            "name",
            _(
                "“%(name)s” cannot be a host's name. Nothing was changed. Use up to 63 letters, digits, “-” and “_”, "
                "and begin with a letter or a digit: folders at home are named after it."
            )
            % {"name": name},
        )


def _refuse_host_values(staging: RemoteName, lanes: int, no_data_timeout_seconds: int) -> None:
    refuse_unsafe_staging(staging)
    if not 1 <= lanes <= 256:
        raise ValueWrong(
            "lanes",
            _("%(count)s lanes cannot be had. Nothing was changed. Choose between 1 and 256.") % {"count": lanes},
        )
    if not 10 <= no_data_timeout_seconds <= 86_400:
        raise ValueWrong(
            "no_data_timeout_seconds",
            _("%(count)s seconds cannot be the no-data timeout. Nothing was changed. Choose between 10 and 86,400.")
            % {"count": no_data_timeout_seconds},
        )


def _refuse_channel_values(address: str, port: int, username: str, key_name: str) -> None:
    if len(address) > 255 or not _ONE_WORD.fullmatch(address):
        raise ValueWrong(
            "address",
            _("“%(address)s” is no address. Nothing was changed. Give a host's name or its IP address.")
            % {"address": address},
        )
    if not 1 <= port <= 65535:
        raise ValueWrong(
            "port",
            _("%(port)s is no port. Nothing was changed. Choose between 1 and 65535; SSH's is 22.") % {"port": port},
        )
    if len(username) > 64 or not _ONE_WORD.fullmatch(username):
        raise ValueWrong(
            "username",
            _("“%(name)s” is no account's name. Nothing was changed. Give the user to sign in as.")
            % {"name": username},
        )
    if key_name:
        load_key_file(allowed_key_path(settings.KEY_DIR, key_name))
