"""Which events a view of the log shows: a filter, the views that are built in, and those that people save."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date, datetime, time, timedelta
from urllib.parse import parse_qs, urlencode

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from calculet.actors import Actor
from calculet.audit.models import Event, SavedView
from calculet.audit.services import record
from calculet.people.roles import Act, require

CLEARING = "clearing.*"  # the acts by which files at their source are removed
NAME_CHARACTERS = 60
VIEWS_AT_MOST = 30


@dataclass(frozen=True, slots=True)
class Filter:
    """What events have to be. What is empty lets everything pass; days are those of the installation's time zone.

    `act` is one act, or several with commas between them; one that ends with `*` stands for all that begin so.
    """

    act: str = ""
    host: str = ""
    pack: str = ""
    person: str = ""
    begin: date | None = None
    end: date | None = None

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def told(self) -> dict[str, str]:
        """The parts that filter, as an event and an address say them."""
        return {name: str(value) for name, value in asdict(self).items() if value}


def events_found(wanted: Filter) -> QuerySet[Event]:
    """Events from the newest on."""
    events = Event.objects.all()
    if wanted.act:
        acts = acts_meant(wanted.act)
        events = events.filter(act=acts[0]) if len(acts) == 1 else events.filter(act__in=acts)
    for field, value in (("host", wanted.host), ("pack", wanted.pack), ("actor", wanted.person)):
        if value:
            events = events.filter(**{field: value})
    if wanted.begin is not None:
        events = events.filter(at__gte=_midnight(wanted.begin))
    if wanted.end is not None:
        events = events.filter(at__lt=_midnight(wanted.end + timedelta(days=1)))
    return events


def acts_meant(patterns: str) -> list[str]:
    """The acts in the log that a filter's `act` stands for; a whole act is given back whether it is there or not."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    begins = tuple(pattern[:-1] for pattern in wanted if pattern.endswith("*"))
    whole = [pattern for pattern in wanted if not pattern.endswith("*")]
    return sorted({*whole, *(act for act in values_known("act") if begins and act.startswith(begins))})


def values_known(field: str) -> list[str]:
    """What stands in the log in `act`, `host`, `pack` or `actor`: the choices of a filter."""
    values = Event.objects.order_by(field).values_list(field, flat=True).distinct()
    return [value for value in values if value]


@dataclass(frozen=True, slots=True)
class BuiltInView:
    """A filter that everybody has. `none` is what its page says as long as there is no such event."""

    name: str | Promise
    query: str
    none: str | Promise


BUILT_IN = (
    BuiltInView(
        gettext_lazy("Who cleared remote archives"),
        urlencode({"act": CLEARING}),
        gettext_lazy("Nothing was cleared on any host: no such act was ever done here."),
    ),
    BuiltInView(
        gettext_lazy("Who approved what"),
        urlencode({"act": "plan.approve*,proposal.approved,build.accept_deviations"}),
        gettext_lazy("Nobody approved anything yet."),
    ),
    BuiltInView(
        gettext_lazy("People and roles"),
        urlencode({"act": "person.*,role.*,password.*"}),
        gettext_lazy("Nobody was added, and no role was given yet."),
    ),
    BuiltInView(
        gettext_lazy("Walks, anchors and exports"),
        urlencode({"act": "audit.*"}),
        gettext_lazy("The chain was neither walked by a person nor anchored, and nobody exported it yet."),
    ),
)


def views_of(actor: Actor) -> QuerySet[SavedView]:
    """The views that a person saved."""
    if actor.user is None:
        return SavedView.objects.none()
    return SavedView.objects.filter(person=actor.user)


def view_save(*, name: str, wanted: Filter, actor: Actor) -> SavedView:
    """Save a filter under a name; one of that name is replaced. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.AUDIT_READ)
    name = name.strip()
    if not name or len(name) > NAME_CHARACTERS or not wanted:
        raise ValidationError(_("A view needs a name of at most 60 characters and a filter. Nothing was saved."))
    query = urlencode(wanted.told())
    if len(query) > 2000:
        raise ValidationError(_("This filter is too long to be saved. Nothing was saved."))
    with transaction.atomic():
        if views_of(actor).exclude(name=name).count() >= VIEWS_AT_MOST:
            raise ValidationError(
                _("You have %(count)s views already. Remove one first. Nothing was saved.") % {"count": VIEWS_AT_MOST}
            )
        view, _made = SavedView.objects.update_or_create(person=actor.user, name=name, defaults={"query": query})
        record(act="audit.view_saved", actor=actor, detail={"name": name, "filter": wanted.told()})
    return view


def view_remove(*, view: SavedView, actor: Actor) -> None:
    """Remove a view of one's own. Raises NotAllowed; SavedView.DoesNotExist for somebody else's."""
    require(actor.user, Act.AUDIT_READ)
    with transaction.atomic():
        own = views_of(actor).get(pk=view.pk)
        record(act="audit.view_removed", actor=actor, detail={"name": own.name})
        own.delete()


def same_query(one: str, other: str) -> bool:
    """True when two queries filter alike."""
    return parse_qs(one) == parse_qs(other)


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
