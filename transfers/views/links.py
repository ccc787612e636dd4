"""Links: what a host's link does and why, and what operators order of it."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory.models import Host
from transfers.link_forms import CapForm, LevelForm, LimitForm, TrialForm
from transfers.models import LaneSetting, Trial, TrialState
from transfers.selectors.allowance import allowance_of, lanes_at_most, limit_of, weekly_limit
from transfers.selectors.goodput import pace_of
from transfers.selectors.lanes import SPANS, history_of, lane_chart
from transfers.selectors.trials import has_work, trial_running, trial_view
from transfers.services import steering, trials
from transfers.views.acts import act_and_return, rights
from transfers.views.find import host_named, trial_numbered
from transfers.views.link_charts import interval_chart, link_chart, small_lanes, week_blocks

_TRIALS_SHOWN = 10


@require_safe
def links(request: PersonRequest) -> HttpResponse:
    """Every host's link, and the limit of all together."""
    require(request.user, Act.VIEW)
    return _links_page(request)


def _links_page(request: PersonRequest, *, form: LimitForm | None = None, status: int = 200) -> HttpResponse:
    hosts = Host.objects.select_related("lane_setting").order_by("name")
    rows = [
        {
            "host": host,
            "pace": pace_of(host),
            "allowance": allowance_of(host),
            "trial": trial_running(host),
            "setting": setting_of(host),
        }
        for host in hosts
    ]
    limit = weekly_limit(limit_of(None))
    context = {
        "rows": rows,
        "weekly": limit,
        "week": week_blocks(limit),
        "limit_form": form or LimitForm.of(limit_of(None), settings.TIME_ZONE),
        **rights(request),
    }
    return render(request, "transfers/links.html", context, status=status)


@require_safe
def link(request: PersonRequest, host: str) -> HttpResponse:
    """One host's link; its figures refresh themselves."""
    require(request.user, Act.VIEW)
    return link_page(request, host_named(host))


def link_page(request: PersonRequest, host: Host, *, status: int = 200, **forms: object) -> HttpResponse:
    """Render a host's link. Forms that were refused are given by their names in the template and shown again."""
    asked = request.GET.get("minutes", "")
    minutes = int(asked) if asked.isascii() and asked.isdigit() and int(asked) in SPANS else SPANS[0]
    history, lanes = history_of(host, minutes), lane_chart(host)
    running = trial_running(host)
    setting, limit = setting_of(host), limit_of(host)
    weekly = weekly_limit(limit)
    pace = pace_of(host)
    context: dict[str, Any] = {
        "host": host,
        "pace": pace,
        "setting": setting,
        "most": lanes_at_most(host),
        "allowance": allowance_of(host),
        "minutes": minutes,
        "spans": SPANS,
        "history": history,
        "chart": link_chart(history),
        "lane_chart": lanes,
        "small_lanes": small_lanes(lanes),
        "trial_view": trial_view(running) if running is not None else None,
        "trials": Trial.objects.filter(host=host).exclude(state=TrialState.RUNNING)[:_TRIALS_SHOWN],
        "has_work": has_work(host),
        "weekly": weekly,
        "week": week_blocks(weekly),
        "is_moving": pace.is_running or running is not None,
        "level_form": LevelForm.of(setting),
        "cap_form": CapForm.of(setting),
        "trial_form": TrialForm(prefix="trial"),
        "limit_form": LimitForm.of(limit, settings.TIME_ZONE),
        **forms,
        **rights(request),
    }
    return page_or_part(request, "transfers/link.html", "live", context, status=status)


def setting_of(host: Host) -> LaneSetting | None:
    """The host's lane setting, if it has one."""
    return LaneSetting.objects.filter(host=host).select_related("trial").first()


@require_POST
def level_choose(request: PersonRequest, host: str) -> HttpResponse:
    """Set the number of lanes, or leave it to steering."""
    require(request.user, Act.LINK_STEER)
    row, form = host_named(host), LevelForm(request.POST, prefix="lanes")
    if not form.is_valid():
        return link_page(request, row, level_form=form, status=422)
    level, number = form.cleaned_data["level"], form.cleaned_data["trial"]
    trial = trial_numbered(host, number) if number is not None else None
    if level is None:
        done = _("The link finds the number of lanes by itself.")
    else:
        done = ngettext("%(count)s lane is used from now on.", "%(count)s lanes are used from now on.", level) % {
            "count": level
        }
    choose = partial(steering.level_choose, host=row, level=level, trial=trial)
    return act_and_return(request, lambda actor: choose(actor=actor), _address(row), done=done)


@require_POST
def lane_cap(request: PersonRequest, host: str) -> HttpResponse:
    """Set or lift the cap on lanes."""
    require(request.user, Act.LINK_STEER)
    row, form = host_named(host), CapForm(request.POST, prefix="cap")
    if not form.is_valid():
        return link_page(request, row, cap_form=form, status=422)
    most = form.cleaned_data["most"]
    done = _("The cap is lifted.") if most is None else _("No more than %(most)s lanes are used.") % {"most": most}
    act = partial(steering.lane_cap_set, host=row, most=most)
    return act_and_return(request, lambda actor: act(actor=actor), _address(row), done=done)


@require_POST
def limit(request: PersonRequest, host: str) -> HttpResponse:
    """Set or lift a host's bandwidth limit."""
    require(request.user, Act.LINK_STEER)
    row, form = host_named(host), LimitForm(request.POST, prefix="limit")
    if not form.is_valid():
        return link_page(request, row, limit_form=form, status=422)
    act = partial(steering.limit_set, host=row, **form.values())
    return act_and_return(request, lambda actor: act(actor=actor), _address(row), done=_("The limit is in force."))


@require_POST
def limit_of_all(request: PersonRequest) -> HttpResponse:
    """Set or lift the bandwidth limit of all links together."""
    require(request.user, Act.LINK_STEER)
    form = LimitForm(request.POST, prefix="limit")
    if not form.is_valid():
        return _links_page(request, form=form, status=422)
    act = partial(steering.limit_set, host=None, **form.values())
    back = reverse("transfers:links")
    return act_and_return(request, lambda actor: act(actor=actor), back, done=_("The limit is in force."))


@require_POST
def trial_start(request: PersonRequest, host: str) -> HttpResponse:
    """Start a trial of lanes."""
    require(request.user, Act.LINK_STEER)
    row, form = host_named(host), TrialForm(request.POST, prefix="trial")
    if not form.is_valid():
        return link_page(request, row, trial_form=form, status=422)
    act = partial(trials.trial_start, host=row, **form.values())
    done = _("The trial runs. What it fetches counts as ever.")
    kept = " ".join(map(str, form.cleaned_data["levels"]))
    return act_and_return(request, lambda actor: act(actor=actor), _address(row), done=done, kept=kept)


@require_POST
def trial_stop(request: PersonRequest, host: str, pk: int) -> HttpResponse:
    """End a trial before its time."""
    require(request.user, Act.LINK_STEER)
    trial = trial_numbered(host, pk)
    done = _("The trial is stopped; the blocks that were done stay.")
    return act_and_return(
        request, lambda actor: trials.trial_stop(trial=trial, actor=actor), _trial_address(trial), done=done
    )


@require_safe
def trial(request: PersonRequest, host: str, pk: int) -> HttpResponse:
    """One trial: its blocks, and what they say."""
    require(request.user, Act.VIEW)
    row = trial_numbered(host, pk)
    view = trial_view(row)
    context = {
        "host": row.host,
        "trial": row,
        "view": view,
        "intervals": interval_chart(view.result.levels),
        "setting": setting_of(row.host),
        "is_moving": view.current is not None,
        **rights(request),
    }
    return page_or_part(request, "transfers/trial.html", "result", context)


def _address(host: Host) -> str:
    return reverse("transfers:link", args=[host.name])


def _trial_address(trial: Trial) -> str:
    return reverse("transfers:trial", args=[trial.host.name, trial.pk])
