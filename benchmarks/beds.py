"""Where a measurement runs: a long, lossy link between two network namespaces, or plain loopback.

The lossy bed joins two namespaces by TUN devices and `relay.c`, which delays, drops and paces packets, and starts an
OpenSSH server at the far end. It needs root, a C compiler, iproute2 and sshd; `missing_for_lossy` says what is not
there. Everything a bed starts ends with it, and two beds may stand at the same time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

FAR, NEAR = "10.77.0.2", "10.77.0.1"
START_SECONDS = 10.0
PROGRAMS = {"ip": "iproute2", "cc": "gcc", "sshd": "openssh-server", "ssh-keygen": "openssh-client"}
_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


@dataclass(frozen=True, slots=True)
class Profile:
    """A link: round trip and queue in milliseconds, loss in percent of packets in runs of `burst`, rate in Mbit/s."""

    name: str
    round_trip_ms: int
    loss_percent: float
    burst: int
    rate_megabits: float
    queue_ms: int = 200


PROFILES = {
    "vpn": Profile("vpn", 180, 1, 1, 20),
    "bad-vpn": Profile("bad-vpn", 180, 3, 3, 20),
    "wan": Profile("wan", 80, 0, 1, 100),
}


@dataclass(frozen=True, slots=True)
class Bed:
    """A place to measure: how to run a command at the near end, and how to reach the server at the far one."""

    description: str
    prefix: tuple[str, ...]
    address: str
    port: int
    username: str
    key: Path
    known_hosts: Path
    relay: int = 0  # the process that is the wire; from one SIGUSR1 to the next nothing passes

    def near(self, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` at the near end."""
        return [*self.prefix, *command]


def find(program: str) -> str | None:
    """The path of a program, or None."""
    return shutil.which(program, path=_PLACES)


def missing_for_lossy() -> str:
    """Why the lossy bed cannot stand here; empty when it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    missing = [f"{program} ({package})" for program, package in PROGRAMS.items() if find(program) is None]
    return f"missing: {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def loopback(folder: Path) -> Iterator[Bed]:
    """An SSH server on this machine's loopback."""
    _make_keys(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = _start_server(folder, (), port, "127.0.0.1")
    try:
        yield _bed("plain loopback", (), "127.0.0.1", port, folder)
    finally:
        _end(server)


@contextlib.contextmanager
def lossy(folder: Path, profile: Profile, seed: int) -> Iterator[Bed]:
    """The lossy link with an SSH server at its far end."""
    _make_keys(folder)
    relay = folder / "relay"
    if not relay.exists():
        subprocess.run(
            [find("cc") or "cc", "-O2", "-o", str(relay), str(Path(__file__).with_name("relay.c"))], check=True
        )
    tag = f"{os.getpid() % 100_000:05d}{seed % 100:02d}"
    near, far = f"bed{tag}n", f"bed{tag}f"
    devices = (f"tun{tag}a", f"tun{tag}b")
    numbers = (
        profile.round_trip_ms, profile.loss_percent, profile.burst, profile.rate_megabits, profile.queue_ms, seed
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.enter_context(_cubic_allowed())
        process = subprocess.Popen([str(relay), *devices, *map(str, numbers)], stdout=subprocess.PIPE)
        stack.callback(_end, process)
        assert process.stdout is not None
        process.stdout.readline()  # "ready"
        for space, device, own, other in ((near, devices[0], NEAR, FAR), (far, devices[1], FAR, NEAR)):
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            _ip("link", "set", device, "netns", space)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "addr", "add", own, "peer", other, "dev", device)
            _ip("-n", space, "link", "set", device, "up", "mtu", "1400", "txqueuelen", "1000")
            # What most servers on the way of such a link use; some machines have another default.
            _ip("netns", "exec", space, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=cubic")
            # Nothing learnt by one connection may help or hurt the next.
            _ip("netns", "exec", space, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
        server = _start_server(folder, ("ip", "netns", "exec", far), 22, FAR)
        stack.callback(_end, server)
        description = (
            f"lossy link: {profile.round_trip_ms} ms, {profile.loss_percent} % loss in runs of {profile.burst}, "
            f"{profile.rate_megabits:g} Mbit/s, cubic"
        )
        yield replace(_bed(description, ("ip", "netns", "exec", near), FAR, 22, folder), relay=process.pid)


@contextlib.contextmanager
def _cubic_allowed() -> Iterator[None]:
    """A namespace may choose only what the whole machine allows; what it allowed before is put back."""
    before = _ALLOWED.read_text().split()
    if "cubic" not in before:
        _ALLOWED.write_text(" ".join([*before, "cubic"]))
    try:
        yield
    finally:
        if "cubic" not in before:
            _ALLOWED.write_text(" ".join(before))


def _bed(description: str, prefix: tuple[str, ...], address: str, port: int, folder: Path) -> Bed:
    kind, blob = (folder / "host_key.pub").read_text().split()[:2]
    label = address if port == 22 else f"[{address}]:{port}"
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(f"{label} {kind} {blob}\n")
    return Bed(description, prefix, address, port, os.environ.get("USER") or "root", folder / "key", known_hosts)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)


def _make_keys(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host_key", "key"):
        if not (folder / name).exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")


def _start_server(folder: Path, prefix: tuple[str, ...], port: int, address: str) -> subprocess.Popen[bytes]:
    """An sshd with the usual limits; returns when it listens."""
    (folder / "home").mkdir(exist_ok=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    lines = [
        f"Port {port}",
        f"ListenAddress {address}",
        f"HostKey {folder / 'host_key'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        "PidFile none",
        "UsePAM no",
        "StrictModes no",
        "PasswordAuthentication no",
        "PermitRootLogin prohibit-password",
        f"SetEnv HOME={folder / 'home'}",
        "Subsystem sftp internal-sftp",
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    log = folder / "sshd.log"
    log.unlink(missing_ok=True)
    command = [*prefix, find("sshd") or "sshd", "-D", "-f", str(folder / "sshd_config"), "-E", str(log)]
    server = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + START_SECONDS
    while not log.exists() or "listening" not in log.read_text():
        if server.poll() is not None or time.monotonic() > deadline:
            _end(server)
            raise RuntimeError(f"sshd did not start: {log.read_text() if log.exists() else 'no log'}")
        time.sleep(0.02)
    return server


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and, for a server, the sessions that it still serves."""
    for child in _below(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    process.kill()
    process.wait(10)
    if process.stdout is not None:
        process.stdout.close()


def _below(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [*_below(int(word)), int(word)]
    return found
