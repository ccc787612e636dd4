"""Saying what needs no answer before the answer: over a long link each wait for one costs a round trip.

OpenSSH reads the packets of a connection one after another, also those that came before it had answered the one in
front of them. So the request to sign in follows the key exchange at once, and the first channel, its command and the
first words to that command follow the request. Two things are known of that server and of no other:

* its first channel has the number 0;
* a session that was asked to run a command takes 2 MiB from then on, so that `CREDIT_BYTES` may be sent before it says
  so. What was sent on credit is taken off the first window that it opens.

Other servers are spoken to word by word, by paramiko's own means (`speaks_ahead` is False for them).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import paramiko
from paramiko.auth_handler import AuthHandler

CREDIT_BYTES = 64 * 1024
_FIRST_NUMBER = 0
_PACKET_BYTES = 2**15
_UNIMPLEMENTED, _SERVICE_ACCEPT, _CHANNEL_OPEN, _WINDOW_ADJUST, _CHANNEL_REQUEST = 3, 6, 90, 93, 98  # SSH_MSG_…
_CHANNEL_FAILURE = 100


class AheadChannel(paramiko.Channel):
    """A channel that may be written to before the server has said how much it takes."""

    has_command = False
    is_request_refused = False  # the server starts nothing on it
    _owed = 0
    _is_assumed = False

    def assume_open(self) -> None:
        """From here on the channel counts as open under the number that the server will give it."""
        self._is_assumed = True
        super()._set_remote_channel(_FIRST_NUMBER, 0, _PACKET_BYTES)  # type: ignore[misc]

    def lend(self) -> None:
        """The command was asked for: `CREDIT_BYTES` may follow it."""
        with self.lock:
            self._owed += CREDIT_BYTES
            self.out_window_size += CREDIT_BYTES
            self.out_buffer_cv.notify_all()

    def take_window(self, message: paramiko.Message) -> None:
        """The server takes more: first of all what it was sent on credit."""
        count = message.get_int()
        with self.lock:
            paid = min(self._owed, count)
            self._owed -= paid
            self.out_window_size += count - paid
            self.out_buffer_cv.notify_all()

    def note_refusal(self, message: paramiko.Message) -> None:
        """The server's word that it does not start what was asked for; the channel closes by it."""
        self.is_request_refused = True
        self._request_failed(message)  # type: ignore[attr-defined]

    def _set_remote_channel(self, chanid: int, window_size: int, max_packet_size: int) -> None:
        """The server's answer. Raises SSHException, which ends the connection, when the number is another one."""
        if not self._is_assumed:
            super()._set_remote_channel(chanid, window_size, max_packet_size)  # type: ignore[misc]
        elif chanid != _FIRST_NUMBER:
            raise paramiko.SSHException(f"the first channel has the number {chanid}")


class _AheadAuth(AuthHandler):
    """Sends the request to sign in together with the question whether such requests are taken."""

    def _request_auth(self) -> None:
        super()._request_auth()  # type: ignore[misc]
        accepted = paramiko.Message()
        accepted.add_string("ssh-userauth")
        accepted.rewind()
        self._parse_service_accept(accepted)  # type: ignore[attr-defined]

    @property
    def _client_handler_table(self) -> Mapping[int, Callable[[paramiko.Message], None]]:
        table: dict[int, Callable[[paramiko.Message], None]] = dict(super()._client_handler_table)  # type: ignore[misc]
        table[_SERVICE_ACCEPT] = lambda message: None  # it was acted upon before it came
        table[_UNIMPLEMENTED] = lambda message: None  # to what was asked beyond a request that is then refused
        return table


class AheadTransport(paramiko.Transport):
    """A connection to a server of which `speaks_ahead` tells whether it reads ahead."""

    _active_check_timeout = 1.0  # seconds between two looks at whether it still runs; its end wakes it at once
    _channels: Any
    remote_cipher: str  # set by the key exchange
    _channel_handler_table: Mapping[int, Callable[..., None]] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        _WINDOW_ADJUST: AheadChannel.take_window,
        _CHANNEL_FAILURE: AheadChannel.note_refusal,
    }

    @property
    def speaks_ahead(self) -> bool:
        """True once an OpenSSH server has named itself."""
        return self.remote_version.startswith("SSH-2.0-OpenSSH_")

    def ask_to_sign_in(self, username: str, key: paramiko.PKey) -> Callable[[], Any]:
        """Send the request; the function returned waits for the answer, as `auth_publickey` does, and raises alike."""
        answered = threading.Event()
        handler = _AheadAuth(self)
        self.auth_handler = handler
        handler.auth_publickey(username, key, answered)
        return lambda: handler.wait_for_response(answered)

    def ask_for_channel(self, window_bytes: int, *, assume: bool = False) -> tuple[AheadChannel, threading.Event]:
        """Ask for a session; the event is set when the answer came, whatever it is, and when the connection ends.

        With `assume` the channel may be used at once; it must be the first of its connection.
        """
        answered = threading.Event()
        with self.lock:
            number = self._next_channel()  # type: ignore[attr-defined]
            channel = AheadChannel(number)
            self._channels.put(number, channel)
            self.channel_events[number] = answered
            self.channels_seen[number] = True
            channel._set_transport(self)  # type: ignore[attr-defined]
            channel._set_window(window_bytes, _PACKET_BYTES)  # type: ignore[attr-defined]
        if assume:
            channel.assume_open()
        message = paramiko.Message()
        message.add_byte(bytes([_CHANNEL_OPEN]))
        message.add_string("session")
        message.add_int(number)
        message.add_int(window_bytes)
        message.add_int(_PACKET_BYTES)
        self._send_user_message(message)  # type: ignore[attr-defined]
        return channel, answered

    def ask_for_command(self, channel: AheadChannel, command: str) -> None:
        """Ask for a command on the channel, once, and do not wait: a refusal closes the channel by itself.

        paramiko's own exec_command waits for the answer without a deadline, and costs a round trip.
        """
        if channel.has_command:
            return
        channel.has_command = True
        self._ask(channel, "exec", command)
        if self.speaks_ahead:
            channel.lend()

    def ask_for_subsystem(self, channel: AheadChannel, name: str) -> None:
        """Like `ask_for_command`, for a program that the server knows by name."""
        channel.has_command = True
        self._ask(channel, "subsystem", name)

    def _ask(self, channel: AheadChannel, kind: str, what: str) -> None:
        message = paramiko.Message()
        message.add_byte(bytes([_CHANNEL_REQUEST]))
        message.add_int(channel.remote_chanid)
        message.add_string(kind)
        message.add_boolean(True)  # noqa: FBT003  (paramiko: answer wanted)
        message.add_string(what)
        self._send_user_message(message)  # type: ignore[attr-defined]

    def is_refused(self, channel: AheadChannel) -> bool:
        """True when the answer was a refusal."""
        return self._channels.get(channel.get_id()) is None
