"""What a host has, asked once in one round trip, and what can be done there because of it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields
from typing import Any

from inventory.remote.base import CommandFailed, Remote
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote

_PROBE_SECONDS = 60.0
_CLOCK_OFF_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """A host's means. Empty text means “not there”; None means “could not be found out”."""

    system: str  # uname -sr
    machine: str
    shell: str  # what /bin/sh is
    find: str  # first line of the version of each program
    tar: str
    stat: str
    dd: str
    sha256sum: str
    xargs: str
    zstd: str
    python3: str
    has_find_printf: bool
    has_tar_list: bool  # --null --no-recursion --verbatim-files-from --files-from
    has_dd_bytes: bool  # iflag=skip_bytes,count_bytes
    has_sha256: bool
    has_sha256_z: bool
    has_xargs_0: bool
    has_stat_format: bool
    has_zstd: bool
    has_python3: bool
    has_setsid: bool
    has_nohup: bool
    cores: int | None
    home: str  # escaped, as RemoteName shows it
    staging_parent: str  # the nearest folder of the staging path that is there, escaped
    staging_writable: bool
    free_bytes: int | None  # at that folder
    clock_offset_seconds: float | None  # the host's clock minus ours, half the round trip taken off
    congestion_control: str
    max_startups: str
    max_sessions: str
    login_noise: bool  # the login shell prints for commands

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON column."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> ProbeReport:
        """Read `as_json` back. Raises TypeError when fields are missing (probed by an older version)."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})

    def missing_steps(self) -> tuple[str, ...]:
        """What can't be done on this host, or only in a slower way: one sentence each, worst first."""
        return tuple(sentence for is_missing, sentence in self._sentences() if is_missing)

    def _sentences(self) -> tuple[tuple[bool, str], ...]:
        offset = self.clock_offset_seconds or 0.0
        return (
            (not self.has_stat_format, "No usable stat: nothing can be scanned or packed here. Install coreutils."),
            (not self.has_sha256, "No sha256sum: digests can't be taken at the source. Install coreutils or BusyBox."),
            (not self.tar, "No tar: archives can't be made here; existing files can be fetched."),
            (
                bool(self.tar) and not self.has_tar_list,
                "This tar does not take exact lists of names: archives can't be made here. Install GNU tar, or fetch "
                "files as they are.",
            ),
            (not self.staging_writable, f"{self.staging_parent} can't be written: choose another staging path."),
            (not self.has_zstd, "No zstd: archives are made as plain .tar and take longer to fetch."),
            (not self.has_find_printf, "This find has no -printf: scans ask stat instead and take longer."),
            (not self.has_dd_bytes, "This dd has no byte offsets: ranges are read in whole blocks."),
            (
                not self.has_setsid,
                "No setsid: long work runs in the background and is stopped process by process.",
            ),
            (
                abs(offset) > _CLOCK_OFF_SECONDS,
                f"The host's clock is {abs(offset):.0f} seconds {'ahead of' if offset > 0 else 'behind'} ours: times "
                "of files are shown by its clock.",
            ),
            (self.login_noise, "The login shell prints text for commands; it is left out, but SFTP may fail there."),
        )


def probe(remote: Remote, staging: RemoteName | None = None) -> ProbeReport:
    """Ask a host what it has, in one round trip; writes nothing there. Raises CommandFailed, TransientError.

    Free space is that of the nearest existing folder of `staging` (of the home folder when none is given).
    """
    step = "see what the host has"
    place = b"$HOME" if staging is None else quote(staging.raw)
    begun, wall = time.monotonic(), _wall_seconds()
    completed = remote.run(
        b'place="%b"\n' % place + _SCRIPT if staging is None else b"place=%b\n" % place + _SCRIPT,
        step=step,
        timeout_seconds=_PROBE_SECONDS,
    )
    answers = _read(completed.output)
    if b"end" not in answers:
        raise CommandFailed(step, completed.status, completed.errors[-2000:].decode("utf-8", "backslashreplace"))
    return _report(answers, begun, wall)
