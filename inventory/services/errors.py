"""Why an act in the inventory was refused. Each is a sentence for the person who must act; nothing was changed.

InventoryError
├── ValueWrong          a value that cannot be used; carries the name of its field
├── NameTaken           another host, or another resource of the host, has the name
├── FingerprintDiffers  the key to pin has another fingerprint than the one that was confirmed
├── PathAbsent          the resource has no path, so it cannot be scanned
├── ScanAbsent          nothing of the resource was scanned yet, so what is in it is not known
├── ApprovalRefused     a proposal may not be decided by this person
├── BoardStale          somebody else changed the board of tiers since it was shown
└── ProposalStale       the proposal's content, or what it changes, is not what was looked at
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _


class InventoryError(Exception):
    """An act was refused. `str()` is the sentence to show."""


@dataclass(eq=False)
class ValueWrong(InventoryError):
    """`field` is the name of the service's argument, so that a form can show the sentence beside it."""

    field: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(eq=False)
class NameTaken(InventoryError):
    what: str
    name: str

    def __str__(self) -> str:
        return _("There is a %(what)s called “%(name)s” already. Nothing was changed. Choose another name.") % {
            "what": _(self.what),
            "name": self.name,
        }


@dataclass(eq=False)
class FingerprintDiffers(InventoryError):
    wanted: str
    found: str

    def __str__(self) -> str:
        return _(
            "The fingerprint to pin is %(wanted)s, but the key's is %(found)s. Nothing was pinned. Ask whoever runs "
            "the host which one is right: somebody may stand in between."
        ) % {"wanted": self.wanted, "found": self.found}


@dataclass(eq=False)
class PathAbsent(InventoryError):
    name: str

    def __str__(self) -> str:
        return _(
            "“%(name)s” has no path on the host, so there is nothing to scan. Nothing was changed. Give it a path, or "
            "scan the resources that it is made of."
        ) % {"name": self.name}


@dataclass(eq=False)
class ScanAbsent(InventoryError):
    name: str

    def __str__(self) -> str:
        return _("“%(name)s” was not scanned yet, so nobody knows its files. Nothing was asked for. Scan it first.") % {
            "name": self.name
        }


@dataclass(eq=False)
class ShellAbsent(InventoryError):
    host: str

    def __str__(self) -> str:
        return _(
            "The account on %(host)s has SFTP only, and this takes a shell there. Nothing was asked for. Give the "
            "account /bin/sh without a forced command, and probe the host again."
        ) % {"host": self.host}


@dataclass(eq=False)
class ApprovalRefused(InventoryError):
    title: str
    reason: str

    def __str__(self) -> str:
        return _("The proposal “%(title)s” was not decided: %(reason)s Nothing was changed.") % {
            "title": self.title,
            "reason": self.reason,
        }


@dataclass(eq=False)
class ProposalStale(InventoryError):
    title: str
    reason: str

    def __str__(self) -> str:
        return _("The proposal “%(title)s” no longer fits: %(reason)s Nothing was changed.") % {
            "title": self.title,
            "reason": self.reason,
        }


@dataclass(eq=False)
class BoardStale(InventoryError):
    host: str

    def __str__(self) -> str:
        return _(
            "The board of %(host)s was changed by somebody else since you saw it. Your edit was not made. This is the "
            "board as it is now: look at it, and make the edit again if it is still wanted."
        ) % {"host": self.host}
