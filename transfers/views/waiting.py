"""What waits for a person and what is wrong, as sentences with the page where it is decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from calculet.pages.templatetags.shown import bytes_short
from calculet.people.models import Person
from calculet.people.roles import Act
from transfers.models import Build, BuildState
from transfers.selectors import overview
from transfers.selectors.adoptions import adoptions_compared
from transfers.selectors.board import Board
from transfers.selectors.drifting import drifts_of_plans


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that does not go on by itself. `is_mine`: this person may decide it."""

    words: str
    detail: str
    address: str
    act: str
    is_mine: bool
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is not as it should be, with the sentence that was kept."""

    tone: str  # bad or warn
    words: str
    sentence: str
    address: str
    at: datetime | None = None


def waiting_for(person: Person) -> list[Waiting]:
    """Everything that waits for a person, what this one may decide first."""
    found = [
        *_proposals(person),
        *_builds(person),
        *_adoptions(person),
        *_hosts(person),
        *_holds(person),
        *_declined(person),
    ]
    return sorted(found, key=lambda one: not one.is_mine)


def _proposals(person: Person) -> Iterator[Waiting]:
    for revision in overview.revisions_proposed():
        yield Waiting(
            words=_("Approve revision %(number)s of the plan of %(host)s")
            % {"number": revision.number, "host": revision.plan.host},
            detail=_("proposed by %(author)s") % {"author": revision.author.shown_name},
            address=reverse("transfers:revision", args=[revision.plan.host.name, revision.number]),
            act=_("Review"),
            is_mine=person.may(Act.PLAN_APPROVE) and revision.author_id != person.pk,
            at=revision.proposed_at,
        )
    for proposal in overview.tier_proposals_open():
        author = proposal.author.shown_name if proposal.author is not None else _("a plan file")
        yield Waiting(
            words=_("Decide on a change of values: %(title)s") % {"title": proposal.title},
            detail=_("%(host)s · proposed by %(author)s") % {"host": proposal.host, "author": author},
            address=elsewhere("inventory:proposals") or elsewhere("inventory:index"),
            act=_("Compare"),
            is_mine=person.may(Act.TIER_APPROVE) and proposal.author_id != person.pk,
            at=proposal.created_at,
        )


def _adoptions(person: Person) -> Iterator[Waiting]:
    for adoption in adoptions_compared():
        pack = adoption.build.pack
        yield Waiting(
            words=_("%(size)s of %(pack)s are here already: copy or take them")
            % {"size": bytes_short(adoption.matched_bytes), "pack": pack},
            detail=_("%(host)s · until then the pack is not fetched") % {"host": pack.plan.host},
            address=reverse("transfers:adopt", args=[pack.plan.host.name, pack.name]),
            act=_("Decide"),
            is_mine=person.may(Act.FETCH),
            at=adoption.requested_at,
        )


def _builds(person: Person) -> Iterator[Waiting]:
    for build in overview.builds_in(BuildState.NEEDS_DECISION):
        count = len(build.deviations)
        yield Waiting(
            words=ngettext(
                "%(count)s file of %(pack)s is not as it was listed",
                "%(count)s files of %(pack)s are not as they were listed",
                count,
            )
            % {"count": count, "pack": build.pack},
            detail=_("%(host)s · accept what deviates, or pack anew") % {"host": build.pack.plan.host},
            address=pack_address(build),
            act=_("Decide"),
            is_mine=(person.may(Act.DEVIATION_ACCEPT) and build.item.revision.author_id != person.pk)
            or person.may(Act.PACK),
        )
    for build in overview.builds_in(BuildState.FAILED):
        yield Waiting(
            words=_("%(pack)s failed") % {"pack": build.pack},
            detail=build.problem or _("No sentence was kept."),
            address=pack_address(build),
            act=_("Look"),
            is_mine=person.may(Act.PACK),
        )
    for unpack in overview.unpacks_failed():
        yield Waiting(
            words=_("Unpacking %(pack)s failed") % {"pack": unpack.build.pack},
            detail=unpack.problem or _("No sentence was kept."),
            address=pack_address(unpack.build),
            act=_("Look"),
            is_mine=person.may(Act.UNPACK),
            at=unpack.finished_at,
        )


def _hosts(person: Person) -> Iterator[Waiting]:
    for host in overview.hosts_without_key():
        yield Waiting(
            words=_("Pin the host key of %(host)s") % {"host": host},
            detail=_("Nothing connects to it before somebody compared its fingerprint."),
            address=elsewhere("inventory:host", host.name) or elsewhere("inventory:hosts"),
            act=_("Compare"),
            is_mine=person.may(Act.HOST_PIN),
        )


def _holds(person: Person) -> Iterator[Waiting]:
    for pack in overview.packs_on_hold():
        yield Waiting(
            words=_("%(pack)s is on hold") % {"pack": pack},
            detail=pack.hold_reason or _("No reason was given."),
            address=reverse("transfers:pack", args=[pack.plan.host.name, pack.name]),
            act=_("Look"),
            is_mine=person.may(Act.PAUSE),
        )


def _declined(person: Person) -> Iterator[Waiting]:
    for revision in overview.revisions_declined_of(person):
        said = [approval.note for approval in revision.approvals.all() if approval.note]
        yield Waiting(
            words=_("Your revision %(number)s for %(host)s was declined")
            % {"number": revision.number, "host": revision.plan.host},
            detail=said[-1] if said else _("No note was given."),
            address=reverse("transfers:revision", args=[revision.plan.host.name, revision.number]),
            act=_("Read"),
            is_mine=True,
            at=revision.decided_at,
        )


def wrong_now(boards: Sequence[Board]) -> list[Wrong]:
    """Everything that is not as it should be: hosts, links, builds, unpacks, and what changed since it was verified."""
    found: list[Wrong] = []
    for host in overview.hosts_with_problem():
        address = elsewhere("inventory:host", host.name) or elsewhere("inventory:hosts")
        found.append(Wrong("bad", str(host), host.problem, address))
    told = {host.words for host in found}
    for board in boards:
        if board.pace.problem and board.host.name not in told:
            at = board.pace.status.at if board.pace.status is not None else None
            found.append(Wrong("bad", str(board.host), board.pace.problem, reverse("transfers:packs"), at))
    for board in overview.boards_silent(boards):
        sentence = _("Something is to be fetched, and its link has not been heard of. A new one starts by itself.")
        at = board.pace.status.at if board.pace.status is not None else None
        found.append(Wrong("warn", str(board.host), sentence, reverse("transfers:packs"), at))
    for build in overview.builds_in(BuildState.FAILED):
        found.append(Wrong("bad", str(build.pack), build.problem or _("It failed."), pack_address(build)))
    for build in overview.builds_struggling():
        found.append(Wrong("warn", str(build.pack), build.problem, pack_address(build), build.not_before))
    for unpack in overview.unpacks_failed():
        words = _("Unpacking %(pack)s") % {"pack": unpack.build.pack}
        found.append(Wrong("bad", words, unpack.problem, pack_address(unpack.build), unpack.finished_at))
    for drift in drifts_of_plans():
        pack = drift.item.pack
        sentence = _("It was listed before its files changed on the host: %(count)s to bring (%(size)s).") % {
            "count": f"{drift.to_bring:,}",
            "size": bytes_short(drift.bytes_to_bring),
        }
        address = reverse("transfers:pack", args=[pack.plan.host.name, pack.name]) + "#drift"
        found.append(Wrong("warn", str(pack), sentence, address, drift.since))
    for resource in overview.resources_stale():
        sentence = _("It changed on the host after its copy was verified here (%(size)s).") % {
            "size": bytes_short(resource.verified_bytes)
        }
        found.append(Wrong("warn", str(resource), sentence, elsewhere("inventory:index"), resource.stale_since))
    return found


def pack_address(build: Build) -> str:
    """The page of the build's pack."""
    return reverse("transfers:pack", args=[build.pack.plan.host.name, build.pack.name])


def elsewhere(name: str, *arguments: object) -> str:
    """An address of another application; empty when it has no such page."""
    try:
        return reverse(name, args=list(arguments))
    except NoReverseMatch:
        return ""
