"""A real SSH server on loopback for the demonstration, by asyncssh, with a rate limit over all its connections.

It runs each command by `/bin/sh -c` as the user who started it, knows one client key, and listens on 127.0.0.1 only.

    python -m transfers.demo.ssh_host --folder DIR --port PORT --bytes-per-second N
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from transfers.demo.zstd_stand_in import install_stand_in

_PIECE_BYTES = 32 * 1024


class RateLimit:
    """Lets bytes through at one rate, shared by all connections; small answers are never held up long."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    async def take(self, count: int) -> None:
        """Wait until `count` more bytes may go."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now - 0.05) + count / self._rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


@dataclass(frozen=True)
class HostFolder:
    """The files of the demonstration's host: its key, who may enter, and programs it offers besides the machine's."""

    path: Path

    @property
    def host_key(self) -> Path:
        return self.path / "ssh_host_ed25519_key"

    @property
    def authorized_keys(self) -> Path:
        return self.path / "authorized_keys"

    @property
    def programs(self) -> Path:
        return self.path / "programs"

    @property
    def home(self) -> Path:
        return self.path / "account"


def prepare_host_folder(folder: HostFolder, client_key: Path) -> None:
    """Make host key and client key where they are missing, and let the client key in."""
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.home.mkdir(exist_ok=True)
    for path in (folder.host_key, client_key):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            key = asyncssh.generate_private_key("ssh-ed25519")
            path.touch(mode=0o600)
            path.write_bytes(key.export_private_key())
            path.with_name(path.name + ".pub").write_bytes(key.export_public_key())
    folder.authorized_keys.write_bytes(client_key.with_name(client_key.name + ".pub").read_bytes())
    if shutil.which("zstd") is None:
        install_stand_in(folder.programs)


def fingerprint_of(folder: HostFolder) -> str:
    """The host key's fingerprint as OpenSSH prints it, read from the host's own file."""
    return str(asyncssh.read_private_key(str(folder.host_key)).get_fingerprint("sha256"))


async def _send(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes], limit: RateLimit) -> None:
    while data := await source.read(_PIECE_BYTES):
        await limit.take(len(data))
        sink.write(data)
        await sink.drain()


async def _feed(source: asyncssh.SSHReader[bytes], sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while data := await source.read(_PIECE_BYTES):
            sink.write(data)
            await sink.drain()
        sink.close()


async def _serve_command(session: asyncssh.SSHServerProcess[bytes], folder: HostFolder, limit: RateLimit) -> None:
    """Run one command in a process group of its own; when the connection ends, the group ends with it."""
    environment = {
        "PATH": f"{os.environ.get('PATH', os.defpath)}:{folder.programs}",
        "HOME": str(folder.home),
        "LANG": "C.UTF-8",
    }
    command = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        session.command or "exec /bin/sh -s",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=folder.home,
        start_new_session=True,
    )
    if command.stdin is None or command.stdout is None or command.stderr is None:
        raise RuntimeError("The command was started without its pipes.")
    feeding = asyncio.create_task(_feed(session.stdin, command.stdin))
    try:
        await asyncio.gather(_send(command.stdout, session.stdout, limit), _send(command.stderr, session.stderr, limit))
        session.exit(await command.wait())
    except (BrokenPipeError, ConnectionResetError, asyncssh.Error):
        pass  # the client has gone; the command goes with it below
    finally:
        feeding.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)


async def serve(folder: HostFolder, port: int, bytes_per_second: float) -> None:
    """Listen until the process is told to stop. Prints one line when ready."""
    limit = RateLimit(bytes_per_second)

    async def serve_command(session: asyncssh.SSHServerProcess[bytes]) -> None:
        await _serve_command(session, folder, limit)

    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[str(folder.host_key)],
        authorized_client_keys=str(folder.authorized_keys),
        process_factory=serve_command,
        encoding=None,
        sftp_factory=True,
        compression_algs=None,
        keepalive_interval=30,
    )
    sys.stdout.write(f"listening on 127.0.0.1 port {server.get_port()}\n")
    sys.stdout.flush()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    server.close()
    await server.wait_closed()


def main() -> None:
    parser = argparse.ArgumentParser(description="A rate-limited SSH server on loopback for the demonstration.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bytes-per-second", type=float, default=2.5e6)
    options = parser.parse_args()
    asyncio.run(serve(HostFolder(options.folder), options.port, options.bytes_per_second))


if __name__ == "__main__":
    main()
