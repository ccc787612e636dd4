"""Lanes of a host's link: steered with a reason for each decision, set by a person, compared in trials."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.leases.services import Held, lease_acquire, lease_release
from calculet.lifecycle import StateConflict
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host
from tests.transfers.factories import PlannedHost, make_host
from transfers import steering
from transfers.engine.trial import Answer
from transfers.engine.types import LaneReading, LeaseLost, Sample
from transfers.ledger import RowLedger
from transfers.models import (
    Build,
    BuildState,
    LaneDecision,
    LaneMinute,
    LaneSetting,
    Pack,
    Trial,
    TrialBlock,
    TrialEnd,
    TrialState,
)
from transfers.selectors.allowance import lanes_at_most
from transfers.selectors.trials import trial_view
from transfers.services.links import link_lease_name
from transfers.services.steering import lane_cap_set, level_choose
from transfers.services.trials import trial_start, trial_stop, trials_end_due

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

MEGABIT = 125_000


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    made = PlannedHost(alice, tmp_path)
    made.add("one", BuildState.FETCHING, chunk_count=64)
    return made


@pytest.fixture
def asks(alice: Person) -> Actor:
    return Actor.of(alice)


class Link:
    """A link without a network: its ledger is asked and fed as the engine does, a second at a time."""

    def __init__(self, host: Host, rate: Callable[[int], float] = lambda lanes: min(19, 0.7 * lanes) * MEGABIT) -> None:
        held = lease_acquire(name=link_lease_name(host.pk))
        assert held is not None
        self.held: Held = held
        self._ledger, self._rate = RowLedger(host, held), rate
        self._brought: dict[int, int] = {}
        self.lanes: list[int] = []

    def run(self, seconds: int, *, silent: int = -1, refusals: int = 0) -> None:
        """`silent`: the number of a lane that brings nothing."""
        for _ in range(seconds):
            lanes = self._ledger.directions().lanes
            self.lanes.append(lanes)
            rate = round(self._rate(lanes))
            for number in range(lanes):
                self._brought[number] = self._brought.get(number, 0) + (0 if number == silent else rate // lanes)
            readings = tuple(
                LaneReading(at, "working", "", 1.0, 5.0 if at == silent else 0.1, 0, self._brought[at])
                for at in range(lanes)
            )
            self._ledger.record_sample(Sample(1.0, rate, rate, readings, refusals, 0), {})

    def kill(self) -> None:
        """As kill -9 does: nothing is told to anybody; the next link gets the lease."""
        lease_release(self.held)


def test_a_link_steers_its_lanes_and_keeps_each_decision_with_its_reason(lab: PlannedHost) -> None:
    link = Link(lab.host)
    link.run(25)
    assert link.lanes[0] == 8 and link.lanes[-1] >= 28
    kept = list(LaneDecision.objects.filter(host=lab.host).order_by("pk"))
    assert kept[0].reason == "The link begins with the 8 lanes of the host's settings."
    assert kept[1].lanes == 16 and kept[1].reason == "8 lanes bring 5.6 Mbit/s; 16 are tried."
    first = kept[1]
    low, mean, high = first.low_bytes_per_second, first.bytes_per_second, first.high_bytes_per_second
    assert low is not None and mean is not None and high is not None
    assert mean == pytest.approx(5.6 * MEGABIT) and low <= mean <= high


def test_the_next_link_begins_with_what_was_found(lab: PlannedHost) -> None:
    link = Link(lab.host)
    link.run(25)
    link.kill()
    again = Link(lab.host)
    again.run(10)
    assert set(again.lanes) == {link.lanes[-1]}
    last = LaneDecision.objects.filter(host=lab.host)[0]
    assert "used last" in last.reason


def test_decisions_are_bounded(lab: PlannedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "DECISIONS_KEPT", 3)
    Link(lab.host).run(25)
    assert LaneDecision.objects.filter(host=lab.host).count() == 3


def test_a_person_sets_a_level_and_leaves_it_to_steering_again(lab: PlannedHost, asks: Actor) -> None:
    link = Link(lab.host)
    link.run(3)
    level_choose(host=lab.host, level=5, actor=asks)
    link.run(10)
    assert set(link.lanes[3:]) == {5}
    level_choose(host=lab.host, level=None, actor=asks)
    link.run(9)
    assert link.lanes[-1] > 5
    acts = list(Event.objects.filter(act="lanes.choose").order_by("pk").values_list("detail", flat=True))
    assert len(acts) == 2 and '"after":5' in acts[0] and '"after":"auto"' in acts[1]


def test_a_cap_for_a_shared_host_holds_whatever_is_steered_or_set(lab: PlannedHost, asks: Actor) -> None:
    link = Link(lab.host)
    link.run(12)
    lane_cap_set(host=lab.host, most=6, actor=asks)
    link.run(40)
    assert max(link.lanes[:12]) > 6 >= max(link.lanes[13:])
    with pytest.raises(ValidationError, match="1 to 6"):
        level_choose(host=lab.host, level=7, actor=asks)
    with pytest.raises(ValidationError, match="1 to 6"):
        trial_start(host=lab.host, levels=[4, 8], actor=asks)
    lane_cap_set(host=lab.host, most=None, actor=asks)
    assert lanes_at_most(lab.host) == 48


def test_only_operators_steer(lab: PlannedHost, bob: Person, asks: Actor) -> None:
    trial = trial_start(host=lab.host, actor=asks)
    approver = Actor.of(bob)
    for act in (
        lambda: level_choose(host=lab.host, level=3, actor=approver),
        lambda: lane_cap_set(host=lab.host, most=3, actor=approver),
        lambda: trial_start(host=lab.host, actor=approver),
        lambda: trial_stop(trial=trial, actor=approver),
    ):
        with pytest.raises(NotAllowed):
            act()
    assert not LaneSetting.objects.exists() and Trial.objects.count() == 1


def test_what_lanes_did_is_kept_by_the_minute(lab: PlannedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "MINUTE_WRITTEN_SECONDS", 0.0)
    link = Link(lab.host)
    LaneSetting.objects.create(host=lab.host, level=4)
    link.run(12, silent=2)
    rows = list(LaneMinute.objects.filter(host=lab.host))
    lanes = {int(lane[0]): lane[1:] for row in rows for lane in row.lanes}
    assert set(lanes) == {0, 1, 2, 3}
    assert lanes[2][0] == 0 and lanes[2][1] > 0 and lanes[0][0] > 0 and lanes[0][1] == 0


# -- trials --------------------------------------------------------------------------------------------------------


def test_a_trial_counts_its_blocks_and_its_result_is_kept_as_the_level(lab: PlannedHost, asks: Actor) -> None:
    link = Link(lab.host)
    link.run(3)
    trial = trial_start(host=lab.host, levels=[4, 8], level_seconds=5, seed=3, actor=asks)
    link.run(26)
    trial.refresh_from_db()
    assert trial.state == TrialState.FINISHED and trial.ended_because == TrialEnd.DONE
    view = trial_view(trial)
    assert view.done == len(view.blocks) == 10 and view.current is None
    assert view.result.answer is Answer.BETTER and view.result.advised == 8
    four, eight = view.result.levels
    assert four.mean == pytest.approx(2.8 * MEGABIT, rel=0.01) and eight.mean == pytest.approx(5.6 * MEGABIT, rel=0.01)
    assert view.new_bytes == sum(block.new_bytes for block in view.blocks) > 0
    level_choose(host=lab.host, level=8, trial=trial, actor=asks)
    link.run(8)
    assert set(link.lanes[-8:]) == {8}
    assert LaneSetting.objects.get(host=lab.host).trial == trial
    acts = Event.objects.order_by("pk").values_list("act", flat=True)
    assert list(acts) == ["trial.start", "trial.finish", "lanes.choose"]


def test_a_killed_link_costs_a_trial_its_present_block_and_no_more(lab: PlannedHost, asks: Actor) -> None:
    trial = trial_start(host=lab.host, levels=[4, 8], level_seconds=5, seed=3, actor=asks)
    link = Link(lab.host)
    link.run(13)
    done = list(TrialBlock.objects.filter(trial=trial, done_at__isnull=False).values_list("position", "new_bytes"))
    assert 4 <= len(done) < 10
    link.kill()
    Link(lab.host).run(18)
    assert (
        list(TrialBlock.objects.filter(trial=trial, position__lte=len(done)).values_list("position", "new_bytes"))
        == done
    )
    trial.refresh_from_db()
    assert trial.state == TrialState.FINISHED


def test_a_link_that_lost_its_lease_counts_nothing_more(lab: PlannedHost, asks: Actor) -> None:
    trial = trial_start(host=lab.host, levels=[4, 8], level_seconds=20, actor=asks)
    link = Link(lab.host)
    link.run(2)
    link.kill()
    assert lease_acquire(name=link_lease_name(lab.host.pk)) is not None
    with pytest.raises(LeaseLost):
        link.run(30)
    assert not TrialBlock.objects.filter(trial=trial, done_at__isnull=False).exists()


def test_equal_levels_end_as_no_difference(lab: PlannedHost, asks: Actor) -> None:
    wobble = iter(range(10**6))
    trial = trial_start(host=lab.host, levels=[4, 8, 12], level_seconds=5, seed=5, actor=asks)
    Link(lab.host, lambda _lanes: (10 + (next(wobble) * 7 % 5)) * MEGABIT).run(40)
    trial.refresh_from_db()
    view = trial_view(trial)
    assert trial.state == TrialState.FINISHED
    assert view.result.answer is Answer.NO_DIFFERENCE and view.result.advised == 4


def test_a_trial_ends_with_a_statement_when_nothing_is_left_to_fetch(lab: PlannedHost, asks: Actor) -> None:
    trial = trial_start(host=lab.host, levels=[4, 8], level_seconds=5, seed=3, actor=asks)
    link = Link(lab.host)
    link.run(8)
    assert trials_end_due() == 0
    Pack.objects.filter(plan=lab.plan).update(on_hold=True)
    assert trials_end_due() == 0  # it waits for what a person stopped
    Build.objects.filter(pack__plan=lab.plan).update(state=BuildState.RECEIVED)
    assert trials_end_due() == 1 and trials_end_due() == 0
    trial.refresh_from_db()
    assert (trial.state, trial.ended_because) == (TrialState.STOPPED, TrialEnd.DRY)
    assert trial_view(trial).done > 0
    assert "nothing left to fetch" in Event.objects.get(act="trial.stop").detail


def test_a_trial_of_a_host_that_stays_away_ends_late(lab: PlannedHost, asks: Actor) -> None:
    trial = trial_start(host=lab.host, actor=asks)
    Trial.objects.filter(pk=trial.pk).update(started_at=timezone.now() - timedelta(hours=25))
    assert trials_end_due() == 1
    trial.refresh_from_db()
    assert trial.ended_because == TrialEnd.LATE


def test_a_stopped_trial_gives_the_lanes_back_and_says_too_little(lab: PlannedHost, asks: Actor) -> None:
    link = Link(lab.host)
    link.run(2)
    trial = trial_start(host=lab.host, levels=[2, 3], level_seconds=60, actor=asks)
    link.run(5)
    assert link.lanes[-1] in (2, 3)
    trial_stop(trial=trial, actor=asks)
    assert trial_view(trial).result.answer is Answer.TOO_FEW
    link.run(16)
    assert link.lanes[-1] > 3
    with pytest.raises(StateConflict):
        trial_stop(trial=trial, actor=asks)


def test_a_cap_below_a_running_trial_is_refused(lab: PlannedHost, asks: Actor) -> None:
    trial = trial_start(host=lab.host, levels=[4, 12], actor=asks)
    lane_cap_set(host=lab.host, most=12, actor=asks)
    with pytest.raises(ValidationError, match="up to 12 lanes runs"):
        lane_cap_set(host=lab.host, most=11, actor=asks)
    trial_stop(trial=trial, actor=asks)
    lane_cap_set(host=lab.host, most=11, actor=asks)
    assert lanes_at_most(lab.host) == 11


@pytest.mark.parametrize(
    ("levels", "seconds", "why"),
    [
        ([4], 600, "two to 6"),
        ([4, 4], 600, "two to 6"),
        ([1, 2, 3, 4, 5, 6, 7], 600, "two to 6"),
        ([0, 4], 600, "1 to 48"),
        ([4, 49], 600, "1 to 48"),
        ([4, 8], 1, "two seconds"),
        ([4, 8], float("nan"), "two seconds"),
    ],
)
def test_a_trial_that_makes_no_sense_is_refused(
    lab: PlannedHost, asks: Actor, levels: list[int], seconds: float, why: str
) -> None:
    with pytest.raises(ValidationError, match=why):
        trial_start(host=lab.host, levels=levels, level_seconds=seconds, actor=asks)
    assert not Trial.objects.exists() and not Event.objects.filter(act="trial.start").exists()


def test_one_trial_at_a_time_and_none_without_work(lab: PlannedHost, asks: Actor) -> None:
    trial_start(host=lab.host, actor=asks)
    with pytest.raises(ValidationError, match="runs on this host already"):
        trial_start(host=lab.host, actor=asks)
    with pytest.raises(ValidationError, match="nothing to fetch"):
        trial_start(host=make_host("idle"), actor=asks)
