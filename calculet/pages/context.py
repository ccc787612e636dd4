"""What every page's frame shows: the areas of the product, and which one this page is in."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

from calculet.people.roles import Act, may

# Name of the address, its words, what it needs. An area stands in the navigation when its address exists.
_AREAS = (
    ("transfers:overview", _("Overview"), Act.VIEW),
    ("inventory:index", _("Inventory"), Act.VIEW),
    ("transfers:plan-index", _("Plan"), Act.VIEW),
    ("transfers:packs", _("Transfers"), Act.VIEW),
    ("transfers:evidence", _("Evidence"), Act.VIEW),
    ("audit:log", _("Audit"), Act.AUDIT_READ),
    ("inventory:hosts", _("Hosts"), Act.VIEW),
    ("people:list", _("People"), Act.PEOPLE_MANAGE),
)


@dataclass(frozen=True, slots=True)
class Area:
    """One entry of the main navigation."""

    address: str
    words: str
    is_current: bool


def navigation(request: HttpRequest) -> dict[str, list[Area]]:
    """Context processor: the areas that this person may see. The longest address that fits is the current one."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"areas": []}
    places = []
    for name, words, act in _AREAS:
        try:
            address = reverse(name)
        except NoReverseMatch:
            continue
        if may(user, act):
            places.append((address, str(words)))
    fitting = [address for address, _words in places if request.path == address or _is_below(request.path, address)]
    current = max(fitting, key=len, default="")
    return {"areas": [Area(address, words, address == current) for address, words in places]}


def _is_below(path: str, address: str) -> bool:
    return address != "/" and path.startswith(address.rstrip("/") + "/")
