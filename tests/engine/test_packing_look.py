"""The look at the list after packing: what cannot be read says what to do about it."""

from __future__ import annotations

from inventory.remote.files import parse_stat
from transfers.engine.packing import compare_look
from transfers.engine.types import Member

SECOND = 1_700_000_000


def test_a_file_that_the_account_may_not_read_is_named_with_what_to_do() -> None:
    line = (
        f"8100 7 8 512 {SECOND} {SECOND} 1 2 1|2023-11-14 22:13:20.000000000 +0000|2023-11-14 22:13:20.000000000 +0000"
    )
    seen = parse_stat(line.encode(), "look at the list again")
    member = Member(b"home/secret", "file", seen.size_bytes, seen.mtime_ns, seen.mode)
    found, deviations = compare_look([member], {member.name: seen}, {})
    assert found == []
    assert [(one.name, one.what) for one in deviations] == [(b"home/secret", "unreadable")]
    assert "leave it out by a rule" in deviations[0].detail
    assert compare_look([member], {member.name: seen}, {member.name: bytes(32)})[1] == []
