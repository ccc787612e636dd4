# How it works, and what it does to files:
#
# - A chunk counts as here only when its bytes in the landing give its SHA-256. Nothing else is trusted: no size, no
#   date, no note of an earlier run, and not the product's cell map (NAME.ledger).
# - A chunk that does not match is fetched into a file of its own (in NAME.script), which grows from its end when
#   the connection breaks. Only once that file gives the SHA-256 is it copied into NAME.incoming, and there it is read
#   and compared again. So nothing that is right is overwritten, and nothing unproven gets in.
# - Before it first writes beside a cell map, it sets that map aside as NAME.ledger.set-aside: the map does not know of
#   what comes now. Without one, the product compares every chunk that lies there with its digest and keeps what is
#   right. Lost are at most those parts of chunks that the product had not finished; they are fetched once more.
# - Names stay NAME.incoming, so that the product goes on from here and verifies, opens and names everything itself.
#   For the day on which it does not come back: "sh THIS finish" gives final names, and never replaces a file.
# - Two things of the same name never run at once: .fetch-script.running in the landing is there while it runs.
# - It holds no password and no key. ssh uses what you have: an agent, your configuration, or KEY=FILE.
#
# Use:  sh THIS            go on with everything      Stop the product, or pause the packs, before you begin.
#       sh THIS check      compare what is here; fetch nothing
#       sh THIS finish     as without a word, then give final names
#
# From the environment: LANDING (where builds land), KEY (a private key file), JOBS (chunks at a time), TRIES (attempts
# in a row that bring nothing before a chunk is given up).

set -u
umask 022
LC_ALL=C
export LC_ALL
: "${KEY:=}" "${TRIES:=8}"
mode=${1:-go}
case $mode in go | check | finish) ;; *) echo "Say nothing, check or finish; not “$mode”." >&2; exit 2 ;; esac
case $JOBS in '' | *[!0-9]* | 0*) echo "JOBS is a number of chunks from 1 on." >&2; exit 2 ;; esac
for need in ssh dd sha256sum; do
  command -v "$need" >/dev/null 2>&1 || { echo "$need is not here, and nothing works without it." >&2; exit 2; }
done
cd -- "$LANDING" || { echo "The landing “$LANDING” cannot be entered. Set LANDING=FOLDER." >&2; exit 2; }
base=$(pwd)
lock=$base/.fetch-script.running
mkdir "$lock" 2>/dev/null || {
  echo "“$lock” is there: this script runs already. If it does not, remove that folder and begin again." >&2
  exit 2
}
trap 'rm -rf "$lock"' EXIT
trap 'stop_jobs; exit 130' INT TERM HUP
printf '%s\n' "$HOST_KEY" >"$lock/known_hosts" || exit 2
: >"$lock/failed"

stop_jobs() {
  slot=1
  while [ "$slot" -le "$JOBS" ]; do
    eval "before=\${job$slot:-}"
    if [ -n "$before" ]; then kill "$before" 2>/dev/null; fi
    slot=$((slot + 1))
  done
}
say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; printf '%s\n' "$*" >>"$lock/failed"; }

# Reading and writing by bytes: dd does it at once where it can (GNU, BusyBox), and in steps that fit elsewhere.
if [ "$(printf abcde | dd bs=4 iflag=skip_bytes,count_bytes,fullblock skip=1 count=3 2>/dev/null)" = bcd ]; then
  stretch() { dd if="$1" bs=65536 iflag=skip_bytes,count_bytes,fullblock skip="$2" count="$3" 2>/dev/null; }
else
  stretch() { tail -c "+$(($2 + 1))" <"$1" 2>/dev/null | head -c "$3"; }
fi
put() { # FILE OFFSET: standard input to that place, and nothing else of the file is touched
  step=65536
  while [ $(($2 % step)) -ne 0 ]; do step=$((step / 2)); done
  dd of="$1" ibs=65536 obs="$step" seek=$(($2 / step)) conv=notrunc 2>/dev/null
}
size() { if [ -f "$1" ]; then wc -c <"$1" | { read -r count _; echo "$count"; }; else echo 0; fi; }
sum() { sha256sum | { read -r digest _; echo "$digest"; }; }

# What the host's shell is told: r reads a stretch; the line before the bytes cannot come from a greeting.
mark=$(dd if=/dev/urandom bs=32 count=1 2>/dev/null | sum)
remote() {
  ssh -T -p "$PORT" -l "$ACCOUNT" ${KEY:+-i "$KEY" -o IdentitiesOnly=yes} -o BatchMode=yes \
    -o StrictHostKeyChecking=yes -o UserKnownHostsFile="\"$lock/known_hosts\"" -o GlobalKnownHostsFile=/dev/null \
    -o HostKeyAlias=the-host -o CheckHostIP=no -o UpdateHostKeys=no -o ConnectTimeout=60 \
    -o ServerAliveInterval=20 -o ServerAliveCountMax=6 -- "$ADDRESS" 'exec /bin/sh -s'
}
prelude='LC_ALL=C
export LC_ALL
if [ "$(printf abcde | dd bs=4 iflag=skip_bytes,count_bytes,fullblock skip=1 count=3 2>/dev/null)" = bcd ]
then r() { dd if="$1" bs=65536 iflag=skip_bytes,count_bytes,fullblock skip=$2 count=$3 2>/dev/null </dev/null; }
else r() { tail -c +$(($2 + 1)) <"$1" 2>/dev/null | head -c $3; }
fi'

# A piece of a chunk is five words: the source as the host's shell reads it, where it begins there, its length, the file
# here, and where it begins in that.
content() { # PIECES: the chunk as it lies in the landing
  while [ $# -ge 5 ]; do
    if [ -f "$4" ]; then stretch "$4" "$5" "$3"; fi
    shift 5
  done
}
ask() { # HAVE PIECES: what the host's shell is told, for all behind the first HAVE bytes
  have=$1
  shift
  printf "%s\nprintf '\\\\n%s\\\\n'\n" "$prelude" "$mark"
  while [ $# -ge 5 ]; do
    if [ "$have" -ge "$3" ]; then
      have=$((have - $3))
    else
      printf 'r %s %s %s\n' "$1" $(($2 + have)) $(($3 - have))
      have=0
    fi
    shift 5
  done
}
behind_mark() {
  while IFS= read -r line; do
    if [ "$line" = "$mark" ]; then
      dd bs=65536 2>/dev/null
      return
    fi
  done
}
place() { # FILE PIECES: a chunk that is right, to where it belongs
  from=$1 at=0
  shift
  while [ $# -ge 5 ]; do
    case $4 in */*) mkdir -p -- "${4%/*}" || return 1 ;; esac
    lead=$(((4096 - $5 % 4096) % 4096)) # to a place from which dd can go in larger steps
    if [ "$lead" -gt "$3" ]; then lead=$3; fi
    if [ "$lead" -gt 0 ]; then stretch "$from" "$at" "$lead" | put "$4" "$5" || return 1; fi
    if [ "$lead" -lt "$3" ]; then
      stretch "$from" $((at + lead)) $(($3 - lead)) | put "$4" $(($5 + lead)) || return 1
    fi
    at=$((at + $3))
    shift 5
  done
}
set_aside() { # the cell map, before anything is written beside it
  [ -f "$name.ledger" ] || return 0
  if command -v flock >/dev/null 2>&1 && ! flock -n "$name.ledger" true; then
    fail "$title: the product fetches into this at the moment. Pause the pack there, then begin again."
    return 1
  fi
  mv -f -- "$name.ledger" "$name.ledger.set-aside"
}
chunk_go() { # INDEX LENGTH SHA256 PIECES
  index=$1 length=$2 wanted=$3
  shift 3
  if [ "$(content "$@" | sum)" = "$wanted" ]; then
    say "$title: chunk $index is here"
    return
  fi
  if [ "$mode" = check ]; then
    fail "$title: chunk $index is not here, or not right"
    return
  fi
  file=$name.script/$index.$$ idle=0 wrong=0
  for other in "$name.script/$index."*; do # what an earlier run had of it, by copy: that run may still be ending
    if [ "$other" != "$file" ] && [ "$(size "$other")" -gt "$(size "$file")" ]; then
      dd if="$other" of="$file" bs=65536 2>/dev/null
    fi
    if [ "$other" != "$file" ]; then rm -f -- "$other"; fi
  done
  while :; do
    had=$(size "$file")
    if [ "$had" -lt "$length" ]; then
      ask "$had" "$@" | remote 2>"$lock/ssh.$build.$index" | behind_mark >>"$file"
    fi
    now=$(size "$file")
    if [ "$now" -ge "$length" ]; then
      [ "$(sum <"$file")" = "$wanted" ] && break
      rm -f -- "$file"
      wrong=$((wrong + 1))
      if [ "$wrong" -ge 3 ]; then
        fail "$title: chunk $index came three times and never gave its digest: the source has changed. It was left out."
        return
      fi
    elif [ "$now" -gt "$had" ]; then
      idle=0
      sleep 1
    else
      idle=$((idle + 1))
      if [ "$idle" -ge "$TRIES" ]; then
        read -r why <"$lock/ssh.$build.$index" || why="nothing came"
        fail "$title: chunk $index: $TRIES times nothing came ($why). What came before is kept; begin again later."
        return
      fi
      sleep $((idle * idle < 60 ? idle * idle : 60))
    fi
  done
  if ! place "$file" "$@" || [ "$(content "$@" | sum)" != "$wanted" ]; then
    fail "$title: chunk $index could not be written to the landing; is the disk full? Make room and begin again."
    return
  fi
  rm -f -- "$file"
  say "$title: chunk $index came and is right"
}

build=0
begin() { # TITLE FOLDER NAME
  build=$((build + 1)) title=$1 folder=$base/$2 name=$3 slot=0 is_open=
  if [ "$mode" != check ]; then mkdir -p -- "$folder"; fi
  cd -- "$folder" || { fail "$title: its folder in the landing cannot be entered."; return; }
  if [ "$mode" = check ]; then is_open=yes; return; fi
  mkdir -p -- "$name.script" && set_aside && is_open=yes
}
chunk() { # as many at a time as JOBS says: each waits for the one that had its place before
  [ -n "$is_open" ] || return 0
  slot=$((slot % JOBS + 1))
  eval "before=\${job$slot:-}"
  if [ -n "$before" ]; then wait "$before"; fi
  chunk_go "$@" </dev/null &
  eval "job$slot=$!"
}
empty() { # FILE: one without bytes
  [ -n "$is_open" ] && [ "$mode" != check ] || return 0
  case $1 in */*) mkdir -p -- "${1%/*}" ;; esac
  [ -e "$1" ] || : >"$1"
}
end() { # SIZE SHA256 ("" where only chunks have one) FINAL
  wait
  [ -n "$is_open" ] || return 0
  rmdir -- "$name.script" 2>/dev/null
  while IFS= read -r line; do
    case $line in "$title: "*) say "$title: not complete"; return ;; esac
  done <"$lock/failed"
  if [ -n "$2" ] && [ "$(sum <"$name.incoming")" != "$2" ]; then
    fail "$title: every chunk is right and the whole is not: this script is not of one build. Make it anew."
    return
  fi
  if [ -n "$2" ] && [ "$mode" != check ]; then printf '%s  %s\n' "$2" "$name.incoming" >"$name.incoming.sha256"; fi
  say "$title: complete and right"
  [ "$mode" = finish ] || return 0
  if [ -e "$3" ] || ! mv -- "$name.incoming" "$3"; then
    fail "$title: “$3” is there already or cannot be made; $name.incoming was left as it is."
  elif [ -n "$2" ]; then
    rm -f -- "$name.incoming.sha256"
    printf '%s  %s\n' "$2" "$3" >"$3.sha256"
  fi
}
