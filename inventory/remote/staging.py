"""Our one writable folder on a host: made, marked, and never taken for granted."""

from __future__ import annotations

from inventory.remote.base import PathRefused, Remote
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote, raise_bad_status

MARKER_NAME = b".calculet-staging"
_HOME, _WRONG_KIND, _FOREIGN, _NOT_OURS, _LINK = 70, 71, 72, 73, 74

_REASONS = {
    _HOME: "it is the account's home folder itself. Choose a folder of its own for staging.",
    _WRONG_KIND: "something that is no folder lies there. Choose another staging path.",
    _FOREIGN: (
        "the folder is not empty and does not carry our marker, so what lies there is not ours to touch. "
        "Choose a new or an empty folder."
    ),
    _NOT_OURS: "its marker names another installation. Choose a folder that no other installation uses.",
    _LINK: "it is a symbolic link. Give the folder's real path.",
}


def refuse_unsafe_staging(path: RemoteName) -> None:
    """Raise PathRefused unless the path is absolute, canonical, and below some folder."""
    if not path.raw.strip():
        raise PathRefused(path, "the staging path is empty. Give an absolute path.")
    if not path.is_absolute:
        raise PathRefused(path, "a staging path must be absolute (it begins with “/”).")
    if path.raw.strip(b"/") == b"" or not path.is_canonical:
        raise PathRefused(path, "a staging path is a folder of its own, without “.”, “..”, “//” or a slash at its end.")


def ensure_staging(remote: Remote, path: RemoteName, marker: bytes) -> None:
    """Make the staging folder (mode 0700) with our marker file, or find it there. Changes nothing else.

    `marker` is one line that names this installation. Raises PathRefused for the root, the home folder, a link, a
    folder in use by others, and TransientError.
    """
    refuse_unsafe_staging(path)
    step = f"prepare the staging folder {path}"
    script = _SCRIPT % {
        b"path": quote(path.raw),
        b"marker": quote(marker),
        b"name": MARKER_NAME,
        b"home": b"%d" % _HOME,
        b"kind": b"%d" % _WRONG_KIND,
        b"foreign": b"%d" % _FOREIGN,
        b"other": b"%d" % _NOT_OURS,
        b"link": b"%d" % _LINK,
    }
    completed = remote.run(script, step=step)
    if reason := _REASONS.get(completed.status):
        raise PathRefused(path, reason)
    if b"ermission denied" in completed.errors or b"Read-only" in completed.errors:
        raise PathRefused(path, "the account may not write there. Choose a path where it may.")
    raise_bad_status(completed, step)


_SCRIPT = b"""umask 077
p=%(path)s
[ ! -L "$p" ] || exit %(link)s
if [ -e "$p" ]; then
  [ -d "$p" ] || exit %(kind)s
  here=$(cd "$p" && pwd -P) || exit
  home=$(cd "${HOME:-/}" 2>/dev/null && pwd -P)
  [ "$here" != "$home" ] && [ "$here" != / ] || exit %(home)s
  if [ -f "$p/%(name)s" ] && [ ! -L "$p/%(name)s" ]; then
    [ "$(cat "$p/%(name)s")" = %(marker)s ] || exit %(other)s
    chmod 700 "$p"
    exit
  fi
  for entry in "$p"/* "$p"/.[!.]* "$p"/..?*; do
    if [ -e "$entry" ] || [ -L "$entry" ]; then
      case $entry in "$p"/%(name)s.*) ;; *) exit %(foreign)s ;; esac
    fi
  done
else
  mkdir -p "$p" || exit
fi
chmod 700 "$p" || exit
printf '%%s\\n' %(marker)s >"$p/%(name)s.$$" && mv -f "$p/%(name)s.$$" "$p/%(name)s"
"""
