"""Any single row that was changed, removed or swapped is found and named. Plain chains, drawn at random."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from calculet.audit.anchors import AnchorLine, links_noting, verdict_against
from calculet.audit.chain import (
    GENESIS,
    Link,
    Verdict,
    body,
    canonical_json,
    link_hash,
    link_line,
    link_text,
    links_read,
    verify,
    verify_part,
)

TEXTS = ("", "x", "alice", '"', "\\", "\n\t\x1f\x7f", "naïve “数据”", "\U0001f600\u2028", "null", '{"a":-1.5}', "&<>/")
TIMES = [datetime(2026, 3, 1, 23, 59, 59, micro, tzinfo=UTC) for micro in (0, 1, 120_000, 999_999)]
few = settings(max_examples=40, deadline=None)
FIELDS = ("actor", "origin", "act", "host", "pack", "subject_label", "detail")


@st.composite
def chains(draw: st.DrawFn, least: int = 1) -> list[Link]:
    """A chain of a few links with any content."""
    found: list[Link] = []
    head = GENESIS
    for sequence in range(1, draw(st.integers(least, 7)) + 1):
        texts = dict(zip(FIELDS, draw(st.tuples(*[st.sampled_from(TEXTS)] * len(FIELDS))), strict=True))
        link = Link(
            sequence=sequence, at=draw(st.sampled_from(TIMES)), user_id=draw(st.none() | st.integers(1, 9)),
            subject_kind="a.b", subject_id=str(sequence), previous_hash=head, hash="", **texts,
        )  # fmt: skip
        head = link_hash(link)
        found.append(link._replace(hash=head))
    return found


def other(value: Any) -> Any:
    if isinstance(value, datetime):
        return value + timedelta(microseconds=1)
    return (value or 0) + 1 if value is None or isinstance(value, int) else f"{value}x"


@few
@given(chains())
def test_a_chain_is_whole_and_survives_an_export(chain: list[Link]) -> None:
    assert verify(chain) == Verdict(len(chain), chain[-1].hash)
    assert list(links_read(link_line(link) for link in chain)) == chain
    assert all(link_text(link) == canonical_json(body(link)) for link in chain)


@few
@given(chains(), st.data(), st.sampled_from([name for name in Link._fields if name != "sequence"]))
def test_a_changed_field_is_named(chain: list[Link], data: st.DataObject, name: str) -> None:
    place = data.draw(st.integers(0, len(chain) - 1))
    changed: dict[str, Any] = {name: other(getattr(chain[place], name))}
    chain[place] = chain[place]._replace(**changed)
    assert verify(chain).broken_at == place + 1
    if name != "previous_hash" or place:
        assert verify_part(chain).broken_at == place + 1


@few
@given(chains(least=2), st.data())
def test_a_change_with_its_hash_made_to_fit_is_named_by_the_next_or_by_the_anchor(
    chain: list[Link], data: st.DataObject
) -> None:
    anchor, seen = AnchorLine(chain[-1].at, len(chain), chain[-1].hash), dict[int, str]()
    place = data.draw(st.integers(0, len(chain) - 1))
    changed = chain[place]._replace(actor="mallory, not the one before")
    chain[place] = changed._replace(hash=link_hash(changed))
    verdict = verdict_against(verify(links_noting(chain, [anchor], seen)), [anchor], seen)
    assert verdict.broken_at == min(place + 2, len(chain))


@few
@given(chains(least=2), st.data())
def test_a_removed_link_is_named(chain: list[Link], data: st.DataObject) -> None:
    anchor, seen = AnchorLine(chain[-1].at, len(chain), chain[-1].hash), dict[int, str]()
    place = data.draw(st.integers(0, len(chain) - 1))
    del chain[place]
    verdict = verdict_against(verify(links_noting(chain, [anchor], seen)), [anchor], seen)
    assert verdict.broken_at == place + 1


@few
@given(chains(least=2), st.data())
def test_links_that_changed_places_are_named(chain: list[Link], data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.sets(st.integers(0, len(chain) - 1), min_size=2, max_size=2)))
    one, two = chain[first], chain[second]
    chain[first], chain[second] = two, one
    assert not verify(chain).whole
    chain[first], chain[second] = two._replace(sequence=first + 1), one._replace(sequence=second + 1)
    assert verify(chain).broken_at == first + 1


@few
@given(chains(least=3), st.data())
def test_a_walk_from_the_middle_finds_what_a_whole_walk_finds(chain: list[Link], data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(chain) - 1))
    assert verify(chain[place:], after=place, head=chain[place - 1].hash) == verify(chain)
    broken = data.draw(st.integers(place, len(chain) - 1))
    chain[broken] = chain[broken]._replace(detail=chain[broken].detail + "x")
    assert verify(chain[place:], after=place, head=chain[place - 1].hash) == verify(chain)
