"""Host keys: fingerprints as OpenSSH prints them, known_hosts files as OpenSSH writes them, and a server's own."""

from __future__ import annotations

import base64
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from inventory.remote.base import ConnectionRefused, HostUnreachable, ProtocolMismatch
from inventory.remote.hostkeys import (
    KnownHostsError,
    PinnedKey,
    format_known_hosts,
    host_label,
    known_keys,
    signature_types,
)
from inventory.remote.pool import fetch_host_key
from tests.parts import need
from tests.sshd import Sshd, make_key


def public(path: Path) -> PinnedKey:
    kind, blob = Path(f"{path}.pub").read_text().split()[:2]
    return PinnedKey(kind, base64.b64decode(blob))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One key of each type."""
    need("ssh-keygen")
    folder = tmp_path_factory.mktemp("keys")
    return {kind: make_key(folder / kind, kind) for kind in ("ed25519", "ecdsa", "rsa")}


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_fingerprint_is_the_one_that_openssh_prints(keys: dict[str, Path], kind: str) -> None:
    shown = subprocess.run(["ssh-keygen", "-lf", f"{keys[kind]}.pub"], check=True, capture_output=True, text=True)
    assert shown.stdout.split()[1] == public(keys[kind]).fingerprint


class TestKnownHosts:
    def test_what_is_written_is_read_back_and_found_by_openssh(self, keys: dict[str, Path], tmp_path: Path) -> None:
        for address, port in (("host.example", 22), ("host.example", 2222), ("192.0.2.7", 22), ("2001:db8::1", 2222)):
            line = format_known_hosts(address, port, public(keys["ed25519"]))
            assert known_keys(line, address, port) == (public(keys["ed25519"]),)
            file = tmp_path / "known_hosts"
            file.write_text(line)
            command = ["ssh-keygen", "-F", host_label(address, port), "-f", str(file)]
            assert subprocess.run(command, check=False, capture_output=True).returncode == 0

    def test_a_port_belongs_to_the_name(self, keys: dict[str, Path]) -> None:
        line = format_known_hosts("host", 2222, public(keys["ed25519"]))
        assert line.startswith("[host]:2222 ")
        assert known_keys(line, "host", 22) == ()
        assert known_keys(line, "host", 2223) == ()

    @pytest.mark.parametrize("port", [22, 2222])
    def test_hashed_lines_of_openssh_are_read(self, keys: dict[str, Path], tmp_path: Path, port: int) -> None:
        file = tmp_path / "known_hosts"
        file.write_text(format_known_hosts("host.example", port, public(keys["rsa"])))
        subprocess.run(["ssh-keygen", "-H", "-f", str(file)], check=True, capture_output=True)
        text = file.read_text()
        assert text.startswith("|1|")
        assert known_keys(text, "host.example", port) == (public(keys["rsa"]),)
        assert known_keys(text, "other.example", port) == ()

    def test_patterns_lists_and_exceptions_are_understood(self, keys: dict[str, Path]) -> None:
        key = public(keys["ed25519"])
        shown = f"{key.key_type} {base64.b64encode(key.blob).decode()} a comment"
        text = f"# a comment\n\n*.example,!bad.example,192.0.2.?,[lab*]:2222 {shown}\n"
        assert known_keys(text, "good.example", 22) == (key,)
        assert known_keys(text, "GOOD.example", 22) == (key,)
        assert known_keys(text, "192.0.2.7", 22) == (key,)
        assert known_keys(text, "lab7", 2222) == (key,)
        for address, port in (("bad.example", 22), ("192.0.2.77", 22), ("lab7", 22), ("example", 22), ("l", 2222)):
            assert known_keys(text, address, port) == ()

    def test_the_best_type_comes_first_and_revoked_keys_are_taken_out(self, keys: dict[str, Path]) -> None:
        lines = [format_known_hosts("host", 22, public(keys[kind])) for kind in ("rsa", "ecdsa", "ed25519", "rsa")]
        found = known_keys("".join(lines), "host", 22)
        assert [key.key_type for key in found] == ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"]
        revoked = "@revoked * " + lines[2].partition(" ")[2]
        authority = "@cert-authority * " + lines[1].partition(" ")[2]
        left = known_keys(revoked + authority + "".join(lines), "host", 22)
        assert [key.key_type for key in left] == ["ecdsa-sha2-nistp256", "ssh-rsa"]

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("host ssh-ed25519", "Line 2.*host type key"),
            ("host ssh-ed25519 not*base64", "Line 2.*not base64"),
            ("host ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIA==", "Line 2 .*says ssh-rsa"),
        ],
    )
    def test_a_line_that_cannot_be_read_is_named_when_it_is_for_this_host(self, line: str, reason: str) -> None:
        text = f"# first\n{line}\n"
        with pytest.raises(KnownHostsError, match=reason):
            known_keys(text, "host", 22)
        assert known_keys(text, "other", 22) == ()

    def test_hashes_that_are_none_name_no_host(self) -> None:
        for field in ("|1|", "|1|a|b|c", "|1|*|*", "|2|AAAA|AAAA"):
            assert known_keys(f"{field} ssh-ed25519 AAAA\n", "host", 22) == ()

    def test_rsa_is_asked_for_with_sha2_signatures_only(self) -> None:
        assert signature_types(["ssh-rsa", "ssh-ed25519"]) == ("rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519")


class TestFetching:
    @pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
    def test_the_key_that_a_server_shows_is_fetched_without_signing_in(
        self, make_sshd: Callable[..., Sshd], kind: str
    ) -> None:
        server = make_sshd(host_key_kind=kind)
        assert fetch_host_key("127.0.0.1", server.port, 10) == server.pinned
        log = server.log_path.read_text()
        assert "Accepted" not in log
        assert server.username not in log

    def test_of_several_keys_the_best_is_taken(self, make_sshd: Callable[..., Sshd], keys: dict[str, Path]) -> None:
        server = make_sshd(host_key_kind="rsa", config=[f"HostKey {keys['ed25519']}"])
        assert fetch_host_key("127.0.0.1", server.port, 10) == public(keys["ed25519"])

    def test_a_closed_port_is_unreachable(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        with pytest.raises(HostUnreachable, match=f"127.0.0.1 port {port}.*refused"):
            fetch_host_key("127.0.0.1", port, 5)

    @pytest.mark.parametrize(
        ("said", "kind"),
        [
            (None, HostUnreachable),
            (b"", ConnectionRefused),
            (b"HTTP/1.1 400 Bad Request\r\nServer: none\r\n\r\n" * 4, ProtocolMismatch),
            (b"SSH-1.5-old\r\n", ProtocolMismatch),
            (b"SSH-2.0-odd\r\n" + b"\0\0\0\x0c" + b"x" * 400, (ProtocolMismatch, ConnectionRefused)),
        ],
    )
    def test_a_server_that_speaks_no_ssh_is_told_apart(
        self, said: bytes | None, kind: type[Exception] | tuple[type[Exception], ...]
    ) -> None:
        done = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def answer() -> None:
                connection = listener.accept()[0]
                with connection:
                    if said is None:
                        done.wait(10)
                        return
                    connection.sendall(said)
                    if said:
                        connection.settimeout(2)
                        try:
                            connection.recv(4096)
                        except OSError:
                            return

            thread = threading.Thread(target=answer)
            thread.start()
            try:
                with pytest.raises(kind) as raised:
                    fetch_host_key("127.0.0.1", listener.getsockname()[1], 1.5)
            finally:
                done.set()
                thread.join(10)
        assert "127.0.0.1 port" in str(raised.value)
