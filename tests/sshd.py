"""A real OpenSSH server on loopback for one test, with its own host key, client key and home folder."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from inventory.remote.hostkeys import PinnedKey, known_keys
from inventory.remote.keys import KeySource
from inventory.remote.pool import Endpoint
from tests.parts import find

_START_SECONDS = 10.0


def make_key(path: Path, kind: str = "ed25519", *options: str, passphrase: str = "") -> Path:
    """Make a key pair with ssh-keygen; returns the private key's path."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path), *options]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=30)
    return path


def busybox_folder(folder: Path) -> Path:
    """A folder of BusyBox's applets and nothing else, to be the only PATH of a small host."""
    busybox = find("busybox")
    assert busybox is not None
    folder.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True, timeout=10)
    for applet in listed.stdout.split():
        link = folder / applet
        if not link.is_symlink():
            link.symlink_to(busybox)
    return folder


class Sshd:
    """An sshd that listens on a free port once the constructor returns. `stop` it, or use it as a context.

    `config` are further sshd_config lines; `environment` is set for every session; `path` replaces PATH there.
    `sftp` is what serves SFTP, if anything.
    `home` is an empty HOME, so that start-up files can be put there. bash reads `home/.bashrc` for every command.
    """

    def __init__(
        self,
        folder: Path,
        *,
        config: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        path: str | None = None,
        host_key_kind: str = "ed25519",
        sftp: str | None = "internal-sftp",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.log_path = folder / "sshd.log"
        self.known_hosts_path = folder / "known_hosts"
        self._host_key = make_key(folder / "host_key", host_key_kind)
        self.key_path = make_key(folder / "client_key")
        shutil.copy(f"{self.key_path}.pub", folder / "authorized_keys")
        self.port = _free_port()
        self._config = [*([f"Subsystem sftp {sftp}"] if sftp else []), *config]
        self._environment = {"HOME": str(self.home), **(environment or {})}
        if path is not None:
            self._environment["PATH"] = path
        self._process: subprocess.Popen[bytes] | None = None
        self.username = getpass.getuser()
        self._note_host_key()
        self.start()

    # -- what a client needs ---------------------------------------------------------------------------------------

    @property
    def pinned(self) -> PinnedKey:
        """The host key that this server shows."""
        return known_keys(self.known_hosts_path.read_text(), "127.0.0.1", self.port)[0]

    def endpoint(self, *, key_path: Path | None = None, pinned: PinnedKey | None = None) -> Endpoint:
        """Where and how to sign in; the host key is pinned."""
        source = KeySource(key_path or self.key_path)
        return Endpoint("127.0.0.1", self.port, self.username, source, pinned or self.pinned)

    def authorize(self, key_path: Path) -> None:
        """Let a further key in."""
        with (self.folder / "authorized_keys").open("a") as file:
            file.write(Path(f"{key_path}.pub").read_text())

    def talk_at_login(self, text: str = "echo 'Welcome to the host'; echo 'mind the step' >&2\n") -> None:
        """Make the login shell print for every command (bash reads .bashrc when sshd starts it)."""
        (self.home / ".bashrc").write_text(text)

    # -- its life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start listening on the same port as before. Returns when it does."""
        assert self._process is None
        sshd = find("sshd")
        assert sshd is not None
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        (self.folder / "sshd_config").write_text("\n".join(self._config_lines()) + "\n")
        command = [sshd, "-D", "-f", str(self.folder / "sshd_config"), "-E", str(self.log_path)]
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_listening(command, deadline):
            # While this server was down, somebody's outgoing connection may have got the port for a moment.
            assert time.monotonic() < deadline, f"sshd did not start: {self.log_path.read_text()[-2000:]}"
            time.sleep(0.1)

    def _is_listening(self, command: list[str], deadline: float) -> bool:
        """Start the process and wait for its own word that it listens; False when it ended instead."""
        told_before = len(self.log_path.read_text()) if self.log_path.exists() else 0
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        while self._process.poll() is None and time.monotonic() < deadline:
            told = self.log_path.read_text()[told_before:] if self.log_path.exists() else ""
            if f"Server listening on 127.0.0.1 port {self.port}" in told and _answers(self.port):
                return True
            time.sleep(0.01)
        self._process.kill()
        self._process.wait(10)
        self._process = None
        return False

    def stop(self) -> None:
        """End the server and every connection. Safe to call twice."""
        self.kill_children()
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
        self.kill_children()

    def restart(self) -> None:
        """Stop it, connections included, and start it again on the same port."""
        self.stop()
        self.start()

    def kill_children(self) -> int:
        """kill -9 every connection's server process; returns how many there were."""
        return self._signal_children(signal.SIGKILL)

    def stop_children(self) -> int:
        """SIGSTOP every connection's server process, as a host that hangs."""
        return self._signal_children(signal.SIGSTOP)

    def continue_children(self) -> int:
        """SIGCONT after `stop_children`."""
        return self._signal_children(signal.SIGCONT)

    def children(self) -> list[int]:
        """Process ids of the sshd processes that serve connections, now."""
        if self._process is None:
            return []
        found, look_at = [], [self._process.pid]
        while look_at:
            parent = look_at.pop()
            for child in _children_of(parent):
                if _command_of(child).startswith("sshd"):
                    found.append(child)
                    look_at.append(child)
        return found

    def _signal_children(self, number: signal.Signals) -> int:
        children = self.children()
        for child in children:
            try:
                os.kill(child, number)
            except ProcessLookupError:
                continue
        return len(children)

    def __enter__(self) -> Sshd:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- its files -------------------------------------------------------------------------------------------------

    def _config_lines(self) -> list[str]:
        variables = " ".join(f'"{name}={value}"' for name, value in self._environment.items())
        # sshd takes the first value of a setting, so a test's own lines come first.
        return [
            *self._config,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self._host_key}",
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
            f"PidFile {self.folder / 'sshd.pid'}",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "LogLevel VERBOSE",
            f"SetEnv {variables}",
        ]

    def _note_host_key(self) -> None:
        kind, blob = Path(f"{self._host_key}.pub").read_text().split()[:2]
        self.known_hosts_path.write_text(f"[127.0.0.1]:{self.port} {kind} {blob}\n")

    def change_host_key(self, kind: str = "ed25519") -> None:
        """Give the server another host key; known_hosts stays as it was. Takes effect by `restart`."""
        for path in (self._host_key, Path(f"{self._host_key}.pub")):
            path.unlink()
        make_key(self._host_key, kind)


def login_shell() -> str:
    """The name of the login shell of the user that runs the tests."""
    return Path(pwd.getpwuid(os.getuid()).pw_shell).name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
