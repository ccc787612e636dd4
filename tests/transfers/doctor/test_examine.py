"""Examining a real server: round trip, what one connection brings, what its kernel says of our connections."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from inventory.remote.wire import read_ss
from tests.engine.books import Books, RunningLink, noise, one_file, wait_until
from tests.fakes import MemoryRemote
from tests.parts import need
from tests.sshd import Sshd, busybox_folder
from transfers.doctor.advice import advise
from transfers.doctor.examine import Places, examine
from transfers.doctor.facts import Facts, LinkHistory
from transfers.engine.clock import SystemClock
from transfers.engine.verify import Stopped

MIB = 2**20

SS = """State  Recv-Q Send-Q        Local Address:Port           Peer Address:Port Process
ESTAB  0      36                 10.0.0.2:22                10.0.0.9:51000
\t cubic wscale:7,7 rto:384 rtt:181.2/3.1 ato:40 mss:1448 pmtu:1500 rcvmss:1096 advmss:1448 cwnd:12 ssthresh:9 \
bytes_sent:1000000 bytes_retrans:14480 bytes_acked:985520 segs_out:705 segs_in:400 data_segs_out:700 send 767kbps \
lastsnd:4 pacing_rate 920kbps delivery_rate 700kbps delivered:690 retrans:1/10 reordering:5 minrtt:180.01
ESTAB  0      0         [::ffff:10.0.0.2]:22       [::ffff:10.0.0.9]:51002
\t bbr wscale:7,7 rto:204 rtt:0.5/0.2 mss:1448 cwnd:40 bytes_acked:5000 segs_out:9 minrtt:0.4
LISTEN 0      128                 0.0.0.0:22                 0.0.0.0:*
garbage
\t cubic cwnd:1
"""


def test_what_ss_prints_is_read_whatever_version_prints_it() -> None:
    first, second = read_ss(SS)
    assert (first.peer, first.peer_port, first.local_port, first.algorithm) == ("10.0.0.9", 51000, 22, "cubic")
    assert (first.window_segments, first.segment_bytes, first.sent_segments, first.sent_again_segments) == (
        12,
        1448,
        700,
        10,
    )
    assert first.round_trip_seconds == pytest.approx(0.1812) and first.least_round_trip_seconds == pytest.approx(
        0.18001
    )
    assert (second.peer, second.peer_port, second.algorithm, second.sent_again_segments) == (
        "10.0.0.9",
        51002,
        "bbr",
        0,
    )


def _examine(remote: SshRemote, places: Places, seconds: float = 1.0) -> Facts:
    return examine(
        remote,
        SystemClock(),
        places,
        processor_seconds=time.process_time,
        wall_seconds=lambda: time.time_ns() / 1e9,
        seconds=seconds,
    )


def test_a_server_beside_us_is_examined_whole(ssh_remote: SshRemote, sshd: Sshd, tmp_path: Path) -> None:
    need("ss")
    (tmp_path / "staging").mkdir()
    (tmp_path / "content").write_bytes(bytes(40 * MIB))
    places = Places(RemoteName(bytes(tmp_path / "staging")), RemoteName(bytes(tmp_path / "content")), tmp_path)
    sshd.talk_at_login()
    facts = _examine(ssh_remote, places)
    assert 0 < facts.least_round_trip_seconds <= facts.round_trip_seconds < 1
    assert facts.one is not None and facts.one.bytes_per_second > 5e6
    assert facts.has_ss and facts.one.algorithm and facts.one.segment_bytes > 500
    assert "gcm" in facts.one.cipher and facts.one.own_seconds_a_byte and facts.one.host_seconds_a_byte
    assert facts.one.sent_segments > 100 and facts.one.loss is not None and facts.one.loss < 0.01
    assert facts.one.out_of_order is not None and facts.one.out_of_order < 0.5
    assert facts.ours is not None and facts.ours.count >= 2
    assert facts.algorithm and facts.send_window_bytes
    assert facts.clock_offset_seconds is not None and abs(facts.clock_offset_seconds) < 0.5
    assert facts.host_read_bytes_per_second and facts.host_write_bytes_per_second
    assert facts.own_read_bytes_per_second and facts.own_write_bytes_per_second
    assert list((tmp_path / "staging").iterdir()) == [], "what was written there is removed"
    sentences = [one.sentence for one in advise(facts, LinkHistory())]
    assert any(sentence.startswith("One connection brought") for sentence in sentences)


def test_lanes_of_a_running_fetch_are_counted_in(ssh_remote: SshRemote, sshd: Sshd, tmp_path: Path) -> None:
    need("ss")
    spec = one_file(tmp_path / "landing", tmp_path / "source", noise(24 * MIB))
    fetching = SshRemote(sshd.endpoint(), no_data_timeout_seconds=30, connect_timeout_seconds=10)
    try:
        with RunningLink(fetching, Books([spec], lanes=3, bytes_per_second=2.0 * MIB)) as link:
            wait_until(lambda: link.here() > 0)
            facts = _examine(ssh_remote, Places(), 0.5)
    finally:
        fetching.close()
    assert facts.ours is not None and facts.ours.count >= 5, "three lanes, and the doctor's own two"


def test_a_host_without_ss_is_examined_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    remote = MemoryRemote(tmp_path / "home", path=str(busybox_folder(tmp_path / "tools")))
    try:
        facts = _examine(remote, Places(), 0.2)  # type: ignore[arg-type]
    finally:
        remote.close()
    assert not facts.has_ss and facts.ours is None and facts.one is not None and facts.one.loss is None


def test_a_stop_ends_it_within_a_second(ssh_remote: SshRemote) -> None:
    begun = time.monotonic()
    with pytest.raises(Stopped):
        examine(
            ssh_remote,
            SystemClock(),
            Places(),
            processor_seconds=time.process_time,
            wall_seconds=lambda: 0.0,
            stop=lambda: time.monotonic() - begun > 0.5,
        )
    assert time.monotonic() - begun < 5
