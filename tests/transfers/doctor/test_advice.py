"""The link doctor's sentences: from figures to what holds the link back and what would help."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from transfers.doctor.advice import Advice, advise, link_loss, loss_bound
from transfers.doctor.facts import Facts, LinkHistory, OneConnection, OwnConnections

MEGABIT = 125_000
LOSSY = Facts(
    round_trip_seconds=0.181,
    least_round_trip_seconds=0.180,
    one=OneConnection(
        seconds=10,
        received_bytes=900_000,
        bytes_per_second=0.7 * MEGABIT,
        sent_segments=640,
        sent_again_segments=6,
        loss=0.0094,
        algorithm="cubic",
        window_segments=11,
        segment_bytes=1448,
        cipher="aes128-gcm@openssh.com",
        host_seconds_a_byte=3e-9,
        own_seconds_a_byte=20e-9,
    ),
    ours=OwnConnections(33, 0.0101, 120_000, 10.0, 0.19, ("cubic",)),
    has_ss=True,
    algorithm="cubic",
    algorithms_there=("reno", "cubic"),
    send_window_bytes=4_194_304,
    clock_offset_seconds=0.03,
    host_read_bytes_per_second=400e6,
    own_write_bytes_per_second=300e6,
    max_startups="10:30:100",
)
KNOWN = LinkHistory(best_bytes_per_second=18.5 * MEGABIT, best_lanes=32, measured_seconds=1200)


def said(facts: Facts, history: LinkHistory, subject: str) -> Advice:
    (found,) = [one for one in advise(facts, history) if one.subject == subject]
    return found


def test_one_connection_under_loss_is_told_with_measure_and_estimate() -> None:
    found = said(LOSSY, KNOWN, "one connection")
    assert found.sentence.startswith(
        "One connection brought 0.7 Mbit/s in 10 s: 1.0% loss over 181 ms holds cubic to about"
    )
    bound = found.figures["loss_bound_bytes_per_second"]
    assert bound == loss_bound(0.181, 0.0101, 1448)
    assert bound * 8 / 1e6 == pytest.approx(0.777, abs=0.001)  # 1448 * 8 / 0.181 * 1.22 / sqrt(0.0101)
    assert "Mathis" in found.sentence


def test_the_link_is_told_with_the_lanes_that_fill_it() -> None:
    found = said(LOSSY, KNOWN, "link")
    assert "32 lanes brought 18.5 Mbit/s (measured over 20 min" in found.sentence
    assert found.figures["lanes_by_division"] == 27


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (("cubic", "bbr"), "set net.ipv4.tcp_congestion_control=bbr"),
        (("cubic",), "load the module tcp_bbr there first"),
    ],
)
def test_bbr_is_advised_with_its_estimate_and_how(there: tuple[str, ...], words: str) -> None:
    found = said(replace(LOSSY, algorithms_there=there), KNOWN, "congestion control")
    assert found.kind == "advice" and words in found.sentence
    assert "about 15.7 Mbit/s (estimated: 85%" in found.sentence


@pytest.mark.parametrize(
    "change",
    [
        {"one": replace(LOSSY.one or OneConnection(1, 1, 1), algorithm="bbr")},
        {"ours": replace(LOSSY.ours or OwnConnections(0, 0, 0, 0, 0, ()), loss=0.0001)},
        {"ours": replace(LOSSY.ours or OwnConnections(0, 0, 0, 0, 0, ()), loss=0.4)},
        {"round_trip_seconds": 0.002},
        {"has_ss": False, "ours": None, "one": OneConnection(10, 900_000, 90_000)},
    ],
    ids=["bbr is there", "no loss", "a broken path", "near", "nothing counted"],
)
def test_bbr_is_not_advised_where_it_would_not_help_or_nobody_knows(change: dict[str, object]) -> None:
    facts = replace(LOSSY, **change)  # type: ignore[arg-type]
    assert not [one for one in advise(facts, KNOWN) if one.subject == "congestion control"]


def test_without_loss_the_window_is_the_bound() -> None:
    clean = replace(LOSSY, ours=None, one=replace(LOSSY.one or OneConnection(1, 1, 1), loss=0.0, bytes_per_second=1e7))
    found = said(clean, KNOWN, "one connection")
    assert "largest send window, 4,194,304 bytes, would hold it to 185 Mbit/s" in found.sentence
    assert "loss_bound_bytes_per_second" not in found.figures


def test_few_segments_say_nothing_about_loss_and_no_ss_is_said() -> None:
    few = replace(LOSSY, ours=None, one=replace(LOSSY.one or OneConnection(1, 1, 1), sent_segments=50))
    assert link_loss(few) is None
    assert "too few segments" in said(few, KNOWN, "path").sentence
    hinted = replace(few, has_ss=False, one=replace(few.one or OneConnection(1, 1, 1), out_of_order=0.012))
    told = said(hinted, KNOWN, "path").sentence
    assert "has no ss" in told and "1.20% of the segments came out of order" in told


def test_a_link_that_was_never_used_gets_advice_to_use_it() -> None:
    found = said(LOSSY, LinkHistory(), "link")
    assert found.kind == "advice" and "not known yet" in found.sentence


def test_a_processor_near_the_links_rate_is_a_warning_and_a_cheap_one_is_not() -> None:
    dear = replace(
        LOSSY, one=replace(LOSSY.one or OneConnection(1, 1, 1), host_seconds_a_byte=4e-7, cipher="aes128-ctr")
    )
    warned = [one for one in advise(dear, KNOWN) if one.subject == "cipher"]
    assert [one.kind for one in warned] == ["warning", "figure"]
    assert "AES-GCM costs less" in warned[0].sentence and "one core carries 20.0 Mbit/s" in warned[0].sentence
    assert {one.kind for one in advise(LOSSY, KNOWN) if one.subject == "cipher"} == {"figure"}


def test_a_disk_slower_than_the_link_refusals_and_a_wrong_clock_are_warnings_and_come_first() -> None:
    facts = replace(LOSSY, own_write_bytes_per_second=2e6, clock_offset_seconds=-90.0)
    found = advise(facts, replace(KNOWN, refusals=12))
    assert [one.subject for one in found[:3]] == ["disks", "limits of sshd", "clock"]
    assert "this machine writes hardly faster" in found[0].sentence
    assert (
        found[1].sentence.startswith("Sshd turned 12 connections away") and "MaxStartups 10:30:100" in found[1].sentence
    )
    assert "90.0 s behind ours" in found[2].sentence


def test_facts_go_through_json_and_come_back_the_same() -> None:
    for facts in (LOSSY, replace(LOSSY, one=None, ours=None)):
        assert Facts.from_json(json.loads(json.dumps(facts.as_json()))) == facts
    json.dumps([one.as_json() for one in advise(LOSSY, KNOWN)])
