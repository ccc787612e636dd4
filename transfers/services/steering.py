"""What operators order of a host's link: its lanes and its limits. Each takes effect within a second or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from inventory.models import Host
from transfers.models import EVERYTHING, BandwidthLimit, LaneSetting, Trial, TrialState
from transfers.selectors.allowance import lanes_at_most
from transfers.windows import LEAST_BYTES_PER_SECOND, MOST_BYTES_PER_SECOND, WINDOWS_AT_MOST, Window, write_windows

LANES_OF_ANY_HOST = 256


def level_choose(*, host: Host, level: int | None, actor: Actor, trial: Trial | None = None) -> None:
    """Keep a number of lanes for a host until another is chosen; None leaves it to steering (`auto`).

    `trial` is the one that the choice was made after. Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.LINK_STEER)
    most = lanes_at_most(host)
    if level is not None and not 1 <= level <= most:
        raise ValidationError(
            _("%(level)s lanes cannot be kept: on this host there may be 1 to %(most)s. Nothing was changed.")
            % {"level": level, "most": most}
        )
    if trial is not None and trial.host_id != host.pk:
        raise ValidationError(_("That trial was made on another host. Nothing was changed."))
    with transaction.atomic():
        row, _made = LaneSetting.objects.select_for_update().get_or_create(host=host)
        before, trial_before = row.level, row.trial_id
        row.level, row.trial = level, trial
        if (before, trial_before) == (row.level, row.trial_id):
            return
        row.save(update_fields=["level", "trial"])
        detail: dict[str, Any] = {"before": before or "auto", "after": level or "auto"}
        if trial is not None:
            detail["trial"] = trial.pk
        audit.record(act="lanes.choose", actor=actor, subject=host, detail=detail)


def lane_cap_set(*, host: Host, most: int | None, actor: Actor) -> None:
    """Let a host that is shared with others have no more than so many lanes; None lifts the cap.

    Raises NotAllowed, and ValidationError also while a trial compares more lanes than that.
    """
    require(actor.user, Act.LINK_STEER)
    if most is not None and not 1 <= most <= LANES_OF_ANY_HOST:
        raise ValidationError(
            _("A cap is between 1 and %(most)s lanes. Nothing was changed.") % {"most": LANES_OF_ANY_HOST}
        )
    with transaction.atomic():
        row, _made = LaneSetting.objects.select_for_update().get_or_create(host=host)
        before = row.most
        if before == most:
            return
        trial = Trial.objects.filter(host=host, state=TrialState.RUNNING).first()
        if trial is not None and most is not None and max(trial.levels) > most:
            raise ValidationError(
                _("A trial of up to %(lanes)s lanes runs. Nothing was changed; stop the trial first.")
                % {"lanes": max(trial.levels)}
            )
        row.most = most
        row.save(update_fields=["most"])
        audit.record(act="lanes.cap", actor=actor, subject=host, detail={"before": before, "after": most})


def limit_set(
    *, host: Host | None, bytes_per_second: int | None, windows: Sequence[Window], time_zone: str, actor: Actor
) -> None:
    """Limit what a host's link, or (None) all links together, may bring: for all hours and by hours of the week.

    `bytes_per_second` None means no limit beside the windows. Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.LINK_STEER)
    _refuse_limit(bytes_per_second, windows, time_zone)
    scope = EVERYTHING if host is None else f"host {host.name}"
    with transaction.atomic():
        rows = BandwidthLimit.objects.select_for_update()
        found = rows.filter(scope=EVERYTHING) if host is None else rows.filter(host=host)
        row = found.first() or BandwidthLimit(scope=scope, host=host)
        before = _told(row)
        row.bytes_per_second, row.time_zone = bytes_per_second, time_zone
        row.windows = [window.as_json() for window in windows]
        after = _told(row)
        if before == after:
            return
        row.save()
        audit.record(act="limit.set", actor=actor, subject=host, detail={"before": before, "after": after})


def _told(row: BandwidthLimit) -> dict[str, object]:
    return {
        "bytes_per_second": row.bytes_per_second,
        "windows": write_windows([Window.from_json(window) for window in row.windows]).splitlines(),
        "time_zone": row.time_zone,
    }


def _refuse_limit(bytes_per_second: int | None, windows: Sequence[Window], time_zone: str) -> None:
    rates = [window.bytes_per_second for window in windows if window.bytes_per_second]
    if bytes_per_second is not None:
        rates.append(bytes_per_second)
    if any(not LEAST_BYTES_PER_SECOND <= rate <= MOST_BYTES_PER_SECOND for rate in rates):
        raise ValidationError(
            _("A limit is 64 kbit/s or more; hours without any transfer are a window. Nothing was changed.")
        )
    if len(windows) > WINDOWS_AT_MOST:
        raise ValidationError(
            _("There may be up to %(most)s windows. Nothing was changed.") % {"most": WINDOWS_AT_MOST}
        )
    try:
        ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValidationError(
            _("“%(zone)s” is no time zone; write for instance Asia/Shanghai or UTC. Nothing was changed.")
            % {"zone": time_zone}
        ) from error
