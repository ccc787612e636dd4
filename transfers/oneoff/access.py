"""Signing in for the one-off command: the host key that known_hosts pins, and the keys that OpenSSH would try."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from inventory.remote.base import HostKeyChanged, HostKeyUnknown, KeyUnusable, LoginRefused, PermanentError
from inventory.remote.hostkeys import KnownHostsError, PinnedKey, host_label, known_keys
from inventory.remote.keys import KeySource
from inventory.remote.names import RemoteName
from inventory.remote.pool import Endpoint, SshRemote, fetch_host_key
from transfers.engine.identity import SourceIdentity, source_from_home
from transfers.engine.landing import shown
from transfers.engine.lane import window_of
from transfers.oneoff.request import FetchRefused, FetchRequest

USUAL_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
FIRST_WORD_SECONDS = 40.0
BEGUN_LANES_AT_MOST = 16  # as long as it is not known how much there is to fetch


def sign_in(
    request: FetchRequest, adopt: Callable[[SshRemote], None], *, lanes: Callable[[float], int]
) -> tuple[SshRemote, RemoteName, SourceIdentity]:
    """A remote that was signed in to, the source's absolute path, and what it is at this moment.

    `adopt` is given each remote before it is used, so that another thread may close it. Connections for lanes
    begin meanwhile; `lanes` says how many will be wanted, given the seconds of a round trip (0: not known yet).

    Raises FetchRefused, TransientError, PermanentError: nothing was changed anywhere.
    """
    changed: HostKeyChanged | None = None
    for host_key in _pinned_keys(request):
        try:
            return _sign_in_by_keys(request, host_key, adopt, lanes)
        except HostKeyChanged as error:
            changed = changed or error  # known_hosts may name several; the server need not have all of them
    assert changed is not None
    raise FetchRefused(f"{changed} The pinned key is the one in “{shown(request.known_hosts)}”.") from changed


def _sign_in_by_keys(
    request: FetchRequest, host_key: PinnedKey, adopt: Callable[[SshRemote], None], lanes: Callable[[float], int]
) -> tuple[SshRemote, RemoteName, SourceIdentity]:
    refusal: PermanentError | None = None
    for number, source in enumerate(_key_sources(request)):
        endpoint = Endpoint(request.place.address, request.port, request.place.username, source, host_key)
        remote = SshRemote(endpoint, no_data_timeout_seconds=request.no_data_seconds)
        adopt(remote)
        try:
            if number == 0:  # the first key is the likeliest; the next ones find the server as it is
                _begin_lanes(remote, lanes)
            path, identity = source_from_home(remote, request.place.path, timeout_seconds=FIRST_WORD_SECONDS)
            return remote, path, identity
        except (LoginRefused, KeyUnusable) as error:
            remote.close()
            if refusal is None or isinstance(error, LoginRefused):
                refusal = error
        except BaseException:
            remote.close()
            raise
    raise refusal or FetchRefused(
        "There is no key to sign in with: no agent is known (SSH_AUTH_SOCK), and ~/.ssh holds none of "
        f"{', '.join(USUAL_KEYS)}. Nothing was changed; name one with --key."
    )


def _begin_lanes(remote: SshRemote, lanes: Callable[[float], int]) -> None:
    count = lanes(0.0)
    begun = remote.begin_shells(count, window_bytes=window_of(count))

    def begin_more() -> None:
        wanted = lanes(remote.round_trip_seconds)
        remote.begin_shells(min(wanted, BEGUN_LANES_AT_MOST) - begun, window_bytes=window_of(wanted))

    remote.on_let_in = begin_more


def _pinned_keys(request: FetchRequest) -> tuple[PinnedKey, ...]:
    address, port = request.place.address, request.port
    try:
        text = request.known_hosts.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        text = ""
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FetchRefused(
            f"“{shown(request.known_hosts)}” cannot be read ({reason}), so the host cannot be told from another. "
            "Nothing was changed."
        ) from error
    try:
        found = known_keys(text, address, port)
    except KnownHostsError as error:
        raise FetchRefused(f"“{shown(request.known_hosts)}”: {error} Nothing was changed.") from error
    if found:
        return found
    server = fetch_host_key(address, port)
    unknown = HostKeyUnknown(address, port, server.key_type, server.fingerprint)
    raise FetchRefused(
        f"“{shown(request.known_hosts)}” names no host key for {host_label(address, port)}. The server shows a "
        f"{server.key_type} key with fingerprint {server.fingerprint}. Nothing was changed. Compare it with the host's "
        "own (ssh-keygen -lf on the host), then add it to that file."
    ) from unknown


def _key_sources(request: FetchRequest) -> Iterator[KeySource]:
    if request.key is not None:
        yield KeySource(request.key)
        return
    if os.environ.get("SSH_AUTH_SOCK"):
        yield KeySource(agent=True)
    home = None
    with suppress(RuntimeError):  # an account without a home folder
        home = Path.home()
    for name in USUAL_KEYS if home is not None else ():
        path = Path(home or ".") / ".ssh" / name
        if path.is_file():
            yield KeySource(path)
