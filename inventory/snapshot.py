"""What a host is, as text files that can be compared between two dates: devices, drivers, kernel, packages, containers.

Nothing is written on the host. What changes by itself (free memory, clock rates, how long a container has been up) is
left out, and lists are sorted, so that two snapshots of an unchanged host are the same. Passwords in addresses of git
remotes are left out as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from inventory.remote.base import CommandFailed, DeadlinePassed, Remote
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote

LIMIT_BYTES = 4 * 2**20  # of one file
SECTION_SECONDS = 15.0  # below a lease's silence
REPOSITORIES_AT_MOST = 200
OFFERED_FOLDER = b"environment"  # in staging: what was written there to be fetched may be listed


@dataclass(frozen=True, slots=True)
class Section:
    """One file of a snapshot and the script that prints it."""

    name: str
    script: bytes


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One file as it was collected; `problem` says in words why there is less than there should be."""

    name: str
    content: bytes
    problem: str = ""


_HAS = b'has() { command -v "$1" >/dev/null 2>&1; }\nPATH=$PATH:/usr/sbin:/sbin; export PATH\n'

SECTIONS = (
    Section(
        "kernel.txt",
        b"uname -srvmo 2>/dev/null || uname -a\ncat /proc/version 2>/dev/null\n"
        b"echo; echo '# parameters'; cat /proc/cmdline 2>/dev/null\n"
        b"echo; echo '# release'; cat /etc/os-release 2>/dev/null\n",
    ),
    Section(
        "pci.txt",
        b"if has lspci; then lspci -nnk; else\n"
        b"[ -d /sys/bus/pci ] || { echo 'neither lspci nor /sys/bus/pci' >&2; exit 69; }\n"
        b'for d in /sys/bus/pci/devices/*; do [ -e "$d/vendor" ] || continue\n'
        b'  r=; [ -e "$d/driver" ] && r=$(readlink "$d/driver"); \n'
        b'  c=$(cat "$d/class"); v=$(cat "$d/vendor"); p=$(cat "$d/device")\n'
        b'  echo "${d##*/} class $c vendor $v device $p driver ${r##*/}"\n'
        b"done; fi\n",
    ),
    Section(
        "drivers.txt",
        b"[ -r /proc/modules ] || { echo 'no /proc/modules' >&2; exit 69; }\n"
        b"cut -d' ' -f1 /proc/modules 2>/dev/null | sort | while read -r m; do\n"
        b'  v=$(cat "/sys/module/$m/version" 2>/dev/null); s=$(cat "/sys/module/$m/srcversion" 2>/dev/null)\n'
        b'  echo "$m version ${v:--} source ${s:--}"\ndone\n'
        b"cat /proc/driver/nvidia/version 2>/dev/null || true\n",
    ),
    Section(
        "cpu.txt",
        b"[ -r /proc/cpuinfo ] || { echo 'no /proc/cpuinfo' >&2; exit 69; }\n"
        b"grep -v -i -e MHz -e bogomips /proc/cpuinfo 2>/dev/null | sort | uniq -c | sort -k2\n",
    ),
    Section("memory.txt", b"grep -E '^(MemTotal|SwapTotal|HugePages_Total|Hugepagesize)' /proc/meminfo 2>/dev/null\n"),
    Section(
        "disks.txt",
        b"if has lsblk; then lsblk -b -o NAME,TYPE,SIZE,FSTYPE,MODEL,SERIAL,MOUNTPOINT 2>/dev/null || lsblk -b; "
        b"else cat /proc/partitions; fi\necho; echo '# mounts'; sort /proc/mounts 2>/dev/null\n",
    ),
    Section(
        "packages.txt",
        b"if has dpkg-query; then\n"
        b"  dpkg-query -W -f '${Package} ${Version} ${Architecture} ${db:Status-Abbrev}\\n' | sort\n"
        b"elif has rpm; then rpm -qa | sort\nelif has apk; then apk info -v | sort\n"
        b"else echo 'no dpkg, rpm or apk' >&2; exit 69; fi\n",
    ),
    Section(
        "containers.txt",
        b"n=0 bad=0\n"
        # A daemon that may not be asked must not pass for one that has nothing.
        b'ask() { said=$("$@") || { bad=1; return; }; [ -z "$said" ] || printf "%s\\n" "$said" | sort; }\n'
        b'for c in podman docker; do has $c || continue; n=1; echo "# $c images"\n'
        b"ask $c images --no-trunc --digests --format '{{.Repository}}:{{.Tag}} {{.ID}} {{.Digest}}'\n"
        b"echo \"# $c containers\"\nask $c ps -a --no-trunc --format '{{.Names}} {{.Image}} {{.ID}}'\ndone\n"
        b"[ $n = 1 ] || { echo 'neither podman nor docker' >&2; exit 69; }\nexit $bad\n",
    ),
)

_GIT = b"""has git || { echo 'no git' >&2; exit 69; }
cd -- %b || exit
GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL
g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c safe.directory='*' "$@"; }
echo "head $(g rev-parse HEAD 2>/dev/null || echo none) $(g symbolic-ref -q --short HEAD 2>/dev/null || echo detached)"
g remote -v | sed 's#://[^/@]*@#://#' | sort -u | sed 's/^/remote /'
# Plumbing that looks at names and times alone: filters that a tree configures are never run.
g diff-index --cached --name-status --ignore-submodules HEAD 2>/dev/null | head -n 500 | sed 's/^/staged /'
g diff-files --name-status --ignore-submodules | head -n 500 | sed 's/^/touched /'
g ls-files --others --exclude-standard --directory | head -n 500 | sed 's/^/untracked /'
"""


def collect(remote: Remote, repositories: Iterable[RemoteName]) -> Iterator[SnapshotPart]:
    """Each file of a snapshot as it is collected. What a host can't tell becomes the file's problem.

    `repositories` are folders with a `.git` in them. Raises the errors of connecting, and ConnectionLost.
    """
    for section in SECTIONS:
        yield _part(remote, section.name, section.script)
    texts, problems = [], []
    for number, folder in enumerate(repositories):
        if number >= REPOSITORIES_AT_MOST:
            problems.append(f"only the first {REPOSITORIES_AT_MOST} source trees were asked")
            break
        one = _part(remote, "git.txt", _GIT % quote(folder.raw))
        texts.append(f"# {folder}\n".encode() + one.content + b"\n")
        if one.problem:
            problems.append(f"{folder}: {one.problem}")
        yield SnapshotPart("", b"")  # a breath for whoever keeps a lease
    yield SnapshotPart("git.txt", b"".join(texts)[:LIMIT_BYTES], "; ".join(problems[:20]))


def _part(remote: Remote, name: str, script: bytes) -> SnapshotPart:
    try:
        completed = remote.run(_HAS + script, step=f"collect {name}", timeout_seconds=SECTION_SECONDS)
    except DeadlinePassed as error:
        return SnapshotPart(name, b"", str(error))
    except CommandFailed as error:
        return SnapshotPart(name, b"", str(error))
    problem = ""
    if completed.status:
        said = completed.errors.decode("utf-8", "replace").strip()[-300:]
        problem = said or f"the command ended with status {completed.status}"
    if len(completed.output) > LIMIT_BYTES:
        problem = f"cut off after {LIMIT_BYTES:,} bytes"
    return SnapshotPart(name, completed.output[:LIMIT_BYTES], problem)
