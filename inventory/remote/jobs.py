"""Long work on a host that outlives the connection: started once, found again, ended as a whole.

A job is a folder in staging:

    script      what runs, under /bin/sh with the folder as its working directory and LC_ALL=C
    pid         "PID START BOOT": START is the process's start in /proc, BOOT names the host's start-up, so a number
                that was given to another process since is not taken for ours
    status      the exit status, written by rename when the script has ended
    log         both outputs
    progress    whatever the script writes there for us

The script runs in a session of its own where the host has `setsid`, so that it can be ended as a group; otherwise in
the background, deaf to hang-ups. Making the folder is the lock: a second start of the same job finds it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inventory.remote.base import CommandFailed, PathMissing, Remote
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote, raise_bad_status

JobPhase = Literal["running", "done", "failed", "lost"]
LOG_TAIL_BYTES = 8192
PROGRESS_BYTES = 4096
_THERE, _GONE, _HALF = 75, 76, 78
_CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job that was started now or found started before."""

    folder: RemoteName
    was_there: bool


@dataclass(frozen=True, slots=True)
class JobState:
    """One look at a job. `lost` means that its process is gone and left no status (killed, or the host restarted)."""

    phase: JobPhase
    status: int | None
    log: bytes
    progress: bytes


def start_job(remote: Remote, folder: RemoteName, script: bytes) -> Job:
    """Start `script` detached, unless the job's folder is there already. The parent folder must exist.

    Raises PathMissing, CommandFailed, TransientError. When the connection is lost in between, call it again.
    """
    step = f"start the job in {folder}"
    name = quote(folder.raw)
    lock = remote.run(_LOCK % {b"name": name, b"there": b"%d" % _THERE, b"half": b"%d" % _HALF}, step=step)
    if lock.status not in (0, _THERE, _HALF):
        if b"No such file" in lock.errors or b"onexistent" in lock.errors:
            raise PathMissing(RemoteName(folder.raw.rpartition(b"/")[0]))
        raise_bad_status(lock, step)
    if lock.status != _THERE:
        remote.write_file(folder.join(b"script"), [script + b"\n"])
    # A start that was cut off after its script came up is finished here, by whoever comes first.
    started = remote.run(b"cd %b || exit\n" % name + _START, step=step, timeout_seconds=_CALL_SECONDS)
    if started.status == _THERE:
        return Job(folder, was_there=True)
    raise_bad_status(started, step)
    return Job(folder, was_there=False)


def poll_job(remote: Remote, folder: RemoteName) -> JobState:
    """Look at a job. Raises PathMissing when it was never started or was removed, TransientError."""
    step = f"look at the job in {folder}"
    completed = remote.run(b"cd %b || exit %d\n" % (quote(folder.raw), _GONE) + _POLL, step=step)
    if completed.status == _GONE:
        raise PathMissing(folder)
    raise_bad_status(completed, step)
    head, _, rest = completed.output.partition(b"\n")
    words = head.split()
    if len(words) != 4:
        raise CommandFailed(step, 0, f"the job's state reads {head[:100]!r}")
    is_alive, status_word = words[0] == b"alive", words[1]
    log_bytes = int(words[2])
    log, progress = rest[:log_bytes], rest[log_bytes:]
    if status_word != b"-":
        status = int(status_word)
        return JobState("done" if status == 0 else "failed", status, log, progress)
    return JobState("running" if is_alive else "lost", None, log, progress)


def stop_job(remote: Remote, folder: RemoteName) -> None:
    """End the job with everything that it started: asked first, then killed. A lost job's orphans are ended as well.

    Raises CommandFailed, TransientError.
    """
    step = f"stop the job in {folder}"
    completed = remote.run(b"cd %b || exit 0\n" % quote(folder.raw) + _STOP, step=step)
    raise_bad_status(completed, step)


def remove_job(remote: Remote, folder: RemoteName) -> None:
    """Remove a job's own files and its folder. Raises CommandFailed while it runs or when other files lie there."""
    step = f"remove the job in {folder}"
    name = quote(folder.raw)
    completed = remote.run(b"[ -d %b ] || exit 0\ncd %b || exit\n" % (name, name) + _REMOVE % name, step=step)
    raise_bad_status(completed, step)


# Whoever makes the folder writes the script; so does who finds a folder that has none yet (a start that was cut off, or
# is on its way: then both write the same).
_LOCK = b"""umask 077
mkdir -- %(name)b && exit
[ -d %(name)b ] || exit 1
cd %(name)b && [ -f script ] && exit %(there)b
exit %(half)b
"""

# `alive PID START BOOT`: the process has this start time in this start-up of the host. The name in /proc/PID/stat may
# hold anything, so fields are counted from its last parenthesis; a zombie is not alive.
_TOOLS = b"""boot() { cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo -; }
begun() {
  if [ -r "/proc/$1/stat" ]; then
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    set -- ${stat##*)}
    [ "$1" != Z ] && [ "$1" != X ] && echo "${20}"
  else
    [ ! -d /proc/self ] && kill -0 "$1" 2>/dev/null && echo -
  fi
}
alive() { [ -n "$1" ] && [ "$3" = "$(boot)" ] && [ "$(begun "$1")" = "$2" ]; }
look() { pid=; start=; boot=; kind=; [ ! -f pid ] || read -r pid start boot kind <pid; }
"""

# The runner writes its own pid before the script runs. `started` is the lock among two who finish the same start.
_START = (
    _TOOLS
    + b"""umask 077
mkdir started 2>/dev/null || exit 75
cat >runner <<'END' || exit
trap '' HUP
exec </dev/null >>log 2>&1
"""
    + _TOOLS
    + b"""echo "$$ $(begun $$) $(boot) $1" >pid.new && mv -f pid.new pid || exit
LC_ALL=C; export LC_ALL
/bin/sh ./script
echo $? >status.new && sync status.new 2>/dev/null
mv -f status.new status
END
if command -v setsid >/dev/null 2>&1; then
  setsid /bin/sh ./runner group </dev/null >>log 2>&1 &
elif command -v nohup >/dev/null 2>&1; then
  nohup /bin/sh ./runner single </dev/null >>log 2>&1 &
else
  (trap '' HUP; exec /bin/sh ./runner single) </dev/null >>log 2>&1 &
fi
tries=0
while [ ! -f pid ] && [ ! -f status ]; do
  tries=$((tries + 1))
  [ $tries -lt 200 ] || { cat log >&2; exit 1; }
  sleep 0.05 2>/dev/null || sleep 1
done
"""
)

# Status is looked at after life: a job that ends in between shows its status and is not called lost.
_POLL = (
    _TOOLS
    + b"""look
life=gone
if [ -z "$pid" ] || alive "$pid" "$start" "$boot"; then life=alive; fi
# Without a pid it is just being started, unless that was long ago: then it broke off.
if [ ! -d started ] || { [ -z "$pid" ] && [ -n "$(find started -prune -mmin +1 2>/dev/null)" ]; }; then life=gone; fi
status=-
[ ! -f status ] || read -r status <status
tail -c %d log 2>/dev/null >log.tail.$$ || :
size=$(wc -c <log.tail.$$)
echo "$life ${status:--} $((size)) ."
cat log.tail.$$
rm -f log.tail.$$
head -c %d progress 2>/dev/null
exit 0
"""
    % (LOG_TAIL_BYTES, PROGRESS_BYTES)
)

# All processes are read in one look (a program for each would take seconds). Those of the job are known by number and
# start: one that ignores the first signal is found again when it is an orphan, one that left the session is found by
# its parent, and none that got the number of another since is hit. What a killed runner left in its session is ended,
# too: its number cannot have become another session's as long as they live.
_STOP = (
    _TOOLS
    + b"""look
[ ! -f status ] || exit 0
[ -n "$pid" ] && [ "$boot" = "$(boot)" ] || exit 0
case $(begun "$pid") in
  "$start") ;;
  "") [ "$kind" = group ] || exit 0 ;;
  *) exit 0 ;;
esac
around() {
  [ -d /proc/self ] || { ! kill -0 "$pid" 2>/dev/null || echo "$pid 0 - 0"; return; }
  cat /proc/[0-9]*/stat 2>/dev/null | while IFS= read -r line; do
    set -- "${line%% *}" ${line##*)}
    case $2 in Z|X) ;; *) echo "$1 $3 ${21} $5" ;; esac
  done
}
members=" $pid:$start "
numbers=" $pid "
[ "$kind" = group ] && session=$pid || session=none
grow() {
  seen=$(around)
  grown=yes
  while [ -n "$grown" ]; do
    grown=
    while read -r p parent s of; do
      case $members in *" $p:$s "*) continue ;; esac
      case "$numbers $of" in
        *" $parent "*|*" $session") members="$members$p:$s "; numbers="$numbers$p "; grown=yes ;;
      esac
    done <<END
$seen
END
  done
}
living() {
  around | while read -r p _ s _; do
    case $members in *" $p:$s "*) printf '%s ' "$p" ;; esac
  done
}
end() {
  grow
  left=$(living)
  [ -n "$left" ] || return
  # No "--" before the group's number: dash and BusyBox take it for a number that is none.
  [ "$kind" != group ] || kill -"$1" "-$pid" 2>/dev/null
  kill -"$1" $left 2>/dev/null
}
end TERM
tries=0
while [ -n "$(living)" ]; do
  tries=$((tries + 1))
  [ $tries -ne 30 ] || end KILL
  [ $tries -lt 150 ] || { echo "process $pid does not end" >&2; exit 1; }
  sleep 0.05 2>/dev/null || sleep 1
done
exit 0
"""
)

_REMOVE = (
    _TOOLS.replace(b"%", b"%%")
    + b"""look
if [ ! -f status ] && alive "$pid" "$start" "$boot"; then echo "it still runs" >&2; exit 77; fi
rm -f script runner pid pid.new status status.new log log.tail.* progress progress.new
rmdir started 2>/dev/null
cd / && rmdir -- %b
"""
)
