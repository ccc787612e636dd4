"""Comparing the members that came out with the members that should be in: both ways, everything told."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from transfers.engine.opens.base import FoundMember
from transfers.engine.types import CheckLevel, Finding, Member, Outcome


def compare_members(
    expected: Iterable[Member], found: Iterable[FoundMember], *, accepted: Collection[bytes] = frozenset()
) -> tuple[int, list[Finding]]:
    """Count the members that are as the list says, and name those that are not.

    Compared are kind, size, digest, permission bits (not of links) and link target. `accepted` are names whose
    deviation a second person accepted: they are told as recorded, and do not make the build bad.
    """
    findings: list[Finding] = []
    last: dict[bytes, FoundMember] = {}
    for one in found:
        if one.name in last:
            findings.append(
                _finding(one, None, Outcome.UNEXPECTED, "it stands in the archive more than once", accepted)
            )
        last[one.name] = one
    matched = 0
    for member in expected:
        here = last.pop(member.name, None)
        if here is None:
            missing = Finding(
                CheckLevel.MEMBER, member.name, 0, member.size_bytes, member.sha256, None, Outcome.MISSING, 0.0
            )
            findings.append(_accept(missing, "it is on the list and not in the pack", accepted))
            continue
        differences = _differences(member, here)
        if differences:
            findings.append(_finding(here, member.sha256, Outcome.DIFFERED, "; ".join(differences), accepted))
        elif here.sha256 is not None and member.sha256 is None:
            why = "the source gave no digest"
            findings.append(_finding(here, None, Outcome.RECORDED, why, accepted))
        else:
            matched += 1
    for extra in last.values():
        findings.append(_finding(extra, None, Outcome.UNEXPECTED, "it is in the pack and not on the list", accepted))
    return matched, findings


def _differences(member: Member, here: FoundMember) -> list[str]:
    if member.kind != here.kind:
        return [f"it is a {here.kind} and should be a {member.kind}"]
    told = []
    if member.kind == "file":
        if member.size_bytes != here.size_bytes:
            told.append(f"it is {here.size_bytes:,} bytes long instead of {member.size_bytes:,}")
        if member.sha256 is not None and member.sha256 != here.sha256:
            told.append("its digest is another one than at the source")
    if member.kind == "link" and member.link_target != here.link_target:
        told.append("the link leads elsewhere than at the source")
    if member.kind != "link" and (member.mode ^ here.mode) & 0o7777:
        told.append(f"its permissions are {here.mode & 0o7777:04o} instead of {member.mode & 0o7777:04o}")
    return told


def _finding(
    here: FoundMember, expected: bytes | None, outcome: Outcome, message: str, accepted: Collection[bytes]
) -> Finding:
    finding = Finding(CheckLevel.MEMBER, here.name, here.offset, here.size_bytes, expected, here.sha256, outcome, 0.0)
    return _accept(finding, message, accepted)


def _accept(finding: Finding, message: str, accepted: Collection[bytes]) -> Finding:
    outcome = finding.outcome
    if finding.subject in accepted and outcome is not Outcome.RECORDED:
        outcome, message = Outcome.RECORDED, f"{message} (an accepted deviation)"
    return Finding(
        finding.level,
        finding.subject,
        finding.offset,
        finding.length,
        finding.expected,
        finding.found,
        outcome,
        0.0,
        message,
    )
