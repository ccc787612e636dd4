"""Anchors: the head of the chain at some time, kept where the database's owner cannot rewrite it. Plain Python.

A chain says that nothing was changed in the middle, but not that its newest events are still there: whoever owns the
database can cut them and set the head back. An anchor file kept elsewhere tells. It is text, one anchor a line:

    anchor 2026-12-01T05:14:00.000000Z 1234 HASH
    anchor 2026-12-01T05:14:00.000000Z 1234 HASH ed25519 PUBLIC_KEY SIGNATURE

Time (UTC), number and hash of the last event at that time; hash, public key and signature in hexadecimal digits. Signed
are the first four words with one blank between them and no line end. Lines are added only; each is synced to the disk.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from calculet.audit.chain import Link, Verdict, time_text

FILE_NAME = "anchors.txt"
_LINE = re.compile(
    r"anchor (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([1-9]\d{0,18}) ([0-9a-f]{64})"
    r"(?: ed25519 ([0-9a-f]{64}) ([0-9a-f]{128}))?"
)


class Signature(StrEnum):
    """What is to be said of an anchor's signature."""

    NONE = "not signed"
    GOOD = "signed"
    OTHER_KEY = "signed by another key"
    WRONG = "wrong signature"


@dataclass(frozen=True, slots=True)
class AnchorLine:
    """The head of the chain at a time. `at` is aware; the rest is hexadecimal, and empty when it is not signed."""

    at: datetime
    sequence: int
    hash: str
    public_key: str = ""
    signature: str = ""

    @property
    def statement(self) -> str:
        """What is signed."""
        return f"anchor {time_text(self.at)} {self.sequence} {self.hash}"

    def __str__(self) -> str:
        return f"{self.statement} ed25519 {self.public_key} {self.signature}" if self.signature else self.statement


class KeyWrong(ValueError):
    """A key file holds no key that can be used. `wanted` is what it should hold."""

    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted

    def __str__(self) -> str:
        return f"it does not hold {self.wanted}, as PEM or in OpenSSH's form"


class AnchorFileWrong(Exception):
    """The anchor file cannot be read or written. `reason` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"The anchor file “{self.path}” cannot be used: {self.reason}."


def signing_key(content: bytes) -> Ed25519PrivateKey:
    """The private key in a file without a passphrase. Raises KeyWrong."""
    for load in (serialization.load_pem_private_key, serialization.load_ssh_private_key):
        try:
            key = load(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a passphrase
            continue
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise KeyWrong("an Ed25519 private key without a passphrase")


def public_key_text(content: bytes) -> str:
    """The public key in a file as hexadecimal digits. Raises KeyWrong."""
    for load in (serialization.load_pem_public_key, serialization.load_ssh_public_key):
        try:
            key = load(content)
        except (ValueError, UnsupportedAlgorithm):
            continue
        if isinstance(key, Ed25519PublicKey):
            return key.public_bytes_raw().hex()
    raise KeyWrong("an Ed25519 public key")


def anchor_signed(anchor: AnchorLine, key: Ed25519PrivateKey) -> AnchorLine:
    """The same anchor with its signature, which for Ed25519 is always the same."""
    signature = key.sign(anchor.statement.encode("ascii")).hex()
    return AnchorLine(anchor.at, anchor.sequence, anchor.hash, key.public_key().public_bytes_raw().hex(), signature)


def signature_state(anchor: AnchorLine, ours: Iterable[str]) -> Signature:
    """How an anchor is signed; `ours` are the public keys that count, in hexadecimal digits."""
    if not anchor.signature:
        return Signature.NONE
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(anchor.public_key))
        key.verify(bytes.fromhex(anchor.signature), anchor.statement.encode("ascii"))
    except (InvalidSignature, ValueError):
        return Signature.WRONG
    return Signature.GOOD if anchor.public_key in set(ours) else Signature.OTHER_KEY


def anchor_append(path: Path, line: str) -> None:
    """Add a line unless it is there already, and sync it. A line that a power cut left half is left as it is.

    Raises AnchorFileWrong.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise AnchorFileWrong(path, "it is no plain file")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if found.st_size == 0:
                os.fchmod(descriptor, 0o644)  # to be read by whoever checks or copies it, whatever the umask
            before = file.read()
            if line.encode("ascii") not in before.splitlines():
                file.write((b"" if before.endswith(b"\n") or not before else b"\n") + line.encode("ascii") + b"\n")
            os.fsync(descriptor)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise AnchorFileWrong(path, str(error.strerror)) from error


def anchors_read(path: Path) -> list[AnchorLine]:
    """The anchors of a file, in its order. Raises AnchorFileWrong, also for a line that is no anchor.

    A line that is the beginning of the next one was cut by a power cut, and written again by the next attempt.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise AnchorFileWrong(path, str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise AnchorFileWrong(path, "it is not ASCII text") from error
    found = []
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            following = lines[number] if number < len(lines) else None
            if not line or (following is not None and following.startswith(line)):
                continue
            raise AnchorFileWrong(path, f"line {number} is not an anchor")
        try:
            at = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        except ValueError as error:
            raise AnchorFileWrong(path, f"line {number} names no time") from error
        found.append(AnchorLine(at, int(match[2]), match[3], match[4] or "", match[5] or ""))
    return found


def links_noting(links: Iterable[Link], anchors: Iterable[AnchorLine], seen: dict[int, str]) -> Iterator[Link]:
    """The same links; the hashes of those that anchors name are put into `seen` on the way."""
    wanted = {anchor.sequence for anchor in anchors}
    for link in links:
        if link.sequence in wanted:
            seen[link.sequence] = link.hash
        yield link


def verdict_against(verdict: Verdict, anchors: Iterable[AnchorLine], seen: Mapping[int, str]) -> Verdict:
    """The verdict on a chain that holds in itself, after comparing it with anchors; the first fault is told."""
    if not verdict.whole:
        return verdict
    for anchor in sorted(anchors, key=lambda anchor: anchor.sequence):
        named = f"the anchor of {time_text(anchor.at)} names event {anchor.sequence} with the hash {anchor.hash}"
        if anchor.sequence > verdict.links:
            first = verdict.links + 1
            gone = f"event {first} was" if first == anchor.sequence else f"events {first} to {anchor.sequence} were"
            return Verdict(verdict.links, verdict.head, first, f"{gone} cut off: {named}.")
        if seen.get(anchor.sequence) != anchor.hash:
            reason = f"the chain was written anew up to it or before: {named}, and it has another one now."
            return Verdict(anchor.sequence - 1, verdict.head, anchor.sequence, reason)
    return verdict
