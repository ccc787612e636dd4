"""A host's row becomes a `Remote`: address, key, pinned host key and deadlines come from the database and settings."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.utils.crypto import salted_hmac

from inventory.models import Channel, Host, HostKey
from inventory.remote.base import PermanentError, Remote
from inventory.remote.hostkeys import PinnedKey
from inventory.remote.keys import KeySource, allowed_key_path
from inventory.remote.pool import Endpoint, SshRemote

_MARKER_HEX = 32


@dataclass(eq=False)
class ChannelMissing(PermanentError):
    """The host has no way to be reached."""

    host: str

    def __str__(self) -> str:
        return (
            f"The host “{self.host}” has no channel, so there is no way to reach it. Nothing was changed. Give it an "
            "address on its page."
        )


def open_remote(host: Host) -> Remote:
    """The host over its first channel, with the pinned key in force and the host's own no-data timeout.

    Nothing is sent before the first call: it raises HostKeyUnknown with the key found when none is pinned,
    HostKeyChanged when another key is shown. Raises ChannelMissing and KeyUnusable at once. Close it after use.
    """
    return SshRemote(endpoint_of(channel_of(host)), no_data_timeout_seconds=float(host.no_data_timeout_seconds))


def channel_of(host: Host) -> Channel:
    """The channel that is tried first. Raises ChannelMissing."""
    channel = host.channels.order_by("position").first()
    if channel is None:
        raise ChannelMissing(host.name)
    return channel


def endpoint_of(channel: Channel) -> Endpoint:
    """Where and how to sign in over a channel. Raises KeyUnusable when its key lies outside the key directory."""
    key = pinned_of(channel)
    return Endpoint(
        address=channel.address,
        port=channel.port,
        username=channel.username,
        key=key_source(channel.key_name),
        pinned=None if key is None else PinnedKey(key.key_type, bytes(key.blob)),
    )


def pinned_of(channel: Channel) -> HostKey | None:
    """The host key that is in force for a channel; None when none was pinned yet."""
    return channel.host_keys.filter(retired_at__isnull=True).first()


def key_source(key_name: str) -> KeySource:
    """The private key of that file name below the key directory; the agent when the name is empty.

    Raises KeyUnusable.
    """
    if not key_name:
        return KeySource(agent=True)
    return KeySource(path=allowed_key_path(settings.KEY_DIR, key_name))


def installation_marker() -> bytes:
    """One line that names this installation in a host's staging folder. It tells nothing about the secret key."""
    mark = salted_hmac("inventory.connect.installation_marker", "staging", algorithm="sha256").hexdigest()
    return b"calculet " + mark[:_MARKER_HEX].encode()
