"""Host keys: pinned by a person, compared before anything is sent, read from and written to known_hosts files."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

# The order that we ask in when nothing is pinned yet, and that a known_hosts file with several keys is read in.
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
# An RSA key signs with SHA-2 only: servers that know nothing but the SHA-1 signature “ssh-rsa” cannot be reached.
_SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True, slots=True)
class PinnedKey:
    """A public host key: its type and its bytes as they go over the wire."""

    key_type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it: `SHA256:` and unpadded base64."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    @property
    def signature_types(self) -> tuple[str, ...]:
        """The algorithm names to negotiate so that the server shows this type of key and no other."""
        return signature_types([self.key_type])


def signature_types(key_types: Sequence[str]) -> tuple[str, ...]:
    """Algorithm names for key types, in the same order."""
    return tuple(name for key_type in key_types for name in _SIGNATURES.get(key_type, (key_type,)))


class KnownHostsError(ValueError):
    """A known_hosts file has a line that cannot be read; the sentence names it."""


def host_label(address: str, port: int) -> str:
    """The name of a host in a known_hosts file."""
    return address if port == 22 else f"[{address}]:{port}"


def format_known_hosts(address: str, port: int, key: PinnedKey) -> str:
    """One line of a known_hosts file, with its line feed."""
    return f"{host_label(address, port)} {key.key_type} {base64.b64encode(key.blob).decode()}\n"


def known_keys(text: str, address: str, port: int) -> tuple[PinnedKey, ...]:
    """The keys that a known_hosts file names for a host, best type first.

    Plain, `[host]:port`, pattern and hashed lines are understood; certificate authorities are passed over, and
    revoked keys are taken out. Raises KnownHostsError for a line for this host that cannot be read.
    """
    found: list[PinnedKey] = []
    revoked: set[bytes] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        mark = fields.pop(0) if fields[0].startswith("@") else ""
        if mark == "@cert-authority" or not fields or not _names(fields[0], host_label(address, port)):
            continue
        key = _read_key(fields, number)
        if mark == "@revoked":
            revoked.add(key.blob)
        elif key not in found:
            found.append(key)
    usable = [key for key in found if key.blob not in revoked and key.key_type in KEY_TYPES]
    return tuple(sorted(usable, key=lambda key: KEY_TYPES.index(key.key_type)))


def _read_key(fields: list[str], number: int) -> PinnedKey:
    if len(fields) < 3:
        raise KnownHostsError(f"Line {number} of the known_hosts file is not “host type key”. Correct or remove it.")
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except binascii.Error as error:
        raise KnownHostsError(
            f"Line {number} of the known_hosts file has a key that is not base64. Correct or remove it."
        ) from error
    length = int.from_bytes(blob[:4], "big")
    if blob[4 : 4 + length] != fields[1].encode():
        raise KnownHostsError(
            f"Line {number} of the known_hosts file says {fields[1]}, but its key is of another type. "
            "Correct or remove it."
        )
    return PinnedKey(fields[1], blob)


def _names(field: str, label: str) -> bool:
    if field.startswith("|1|"):
        return _is_hash_of(field, label)
    named = False
    for pattern in field.split(","):
        negative = pattern.startswith("!")
        # fnmatch gives brackets a meaning that known_hosts does not have.
        matcher = pattern.removeprefix("!").lower().replace("[", "[[]")
        if fnmatch.fnmatchcase(label.lower(), matcher):
            if negative:
                return False
            named = True
    return named


def _is_hash_of(field: str, label: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in field[3:].split("|"))
    except ValueError:  # a wrong count of parts, or not base64: then it names no host
        return False
    return hmac.compare_digest(hmac.new(salt, label.encode(), hashlib.sha1).digest(), digest)
