"""Roles, acts, and the one table that says who may do what.

A role is a Django group of the same name. Being a superuser or staff grants nothing here: whoever should act, gets a
role, by an act that is an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

    from calculet.people.models import Person


class Role(StrEnum):
    """What a person is here. One person may have several roles."""

    VIEWER = "viewer"
    PLANNER = "planner"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


class Act(StrEnum):
    """What can be done, as far as not everybody may do it."""

    VIEW = "view"
    HOST_MANAGE = "host.manage"
    HOST_PIN = "host.pin"
    LANDING_MANAGE = "landing.manage"
    SCAN = "scan"
    RESOURCE_EDIT = "resource.edit"
    TIER_EDIT = "tier.edit"
    TIER_APPROVE = "tier.approve"
    PLAN_EDIT = "plan.edit"
    PLAN_APPROVE = "plan.approve"
    PLAN_DECLINE = "plan.decline"
    ORDER = "order"
    PAUSE = "pause"
    PACK = "pack"
    FETCH = "fetch"
    LINK_STEER = "link.steer"
    DEVIATION_ACCEPT = "deviation.accept"
    UNPACK = "unpack"
    REPORT_MAKE = "report.make"
    REPORT_READ = "report.read"
    AUDIT_READ = "audit.read"
    AUDIT_EXPORT = "audit.export"
    PEOPLE_MANAGE = "people.manage"


EVERY_ROLE = frozenset(Role)

ACTS: Mapping[Act, frozenset[Role]] = MappingProxyType(
    {
        Act.VIEW: EVERY_ROLE,
        Act.HOST_MANAGE: frozenset({Role.ADMIN, Role.OPERATOR}),
        Act.HOST_PIN: frozenset({Role.ADMIN, Role.OPERATOR}),
        Act.LANDING_MANAGE: frozenset({Role.ADMIN, Role.OPERATOR}),
        Act.SCAN: frozenset({Role.OPERATOR, Role.PLANNER}),
        Act.RESOURCE_EDIT: frozenset({Role.PLANNER}),
        Act.TIER_EDIT: frozenset({Role.PLANNER}),
        Act.TIER_APPROVE: frozenset({Role.APPROVER}),
        Act.PLAN_EDIT: frozenset({Role.PLANNER}),
        Act.PLAN_APPROVE: frozenset({Role.APPROVER}),
        Act.PLAN_DECLINE: frozenset({Role.APPROVER}),
        Act.ORDER: frozenset({Role.OPERATOR}),
        Act.PAUSE: frozenset({Role.OPERATOR}),
        Act.PACK: frozenset({Role.OPERATOR}),
        Act.FETCH: frozenset({Role.OPERATOR}),
        Act.LINK_STEER: frozenset({Role.OPERATOR}),
        Act.DEVIATION_ACCEPT: frozenset({Role.APPROVER}),
        Act.UNPACK: frozenset({Role.OPERATOR}),
        Act.REPORT_MAKE: frozenset({Role.OPERATOR, Role.APPROVER, Role.AUDITOR}),
        Act.REPORT_READ: EVERY_ROLE,
        Act.AUDIT_READ: frozenset({Role.AUDITOR, Role.APPROVER, Role.ADMIN}),
        Act.AUDIT_EXPORT: frozenset({Role.AUDITOR}),
        Act.PEOPLE_MANAGE: frozenset({Role.ADMIN}),
    }
)


@dataclass(eq=False)
class NotAllowed(PermissionDenied):
    """Somebody asked for what their roles do not cover. `who` is empty when nobody is signed in."""

    who: str
    act: Act

    def __str__(self) -> str:
        roles = _(" or ").join(_(role) for role in sorted(ACTS[self.act]))
        who = f"“{self.who}”" if self.who else _("Nobody in particular")
        return _(
            "%(who)s may not do this (%(act)s): it needs the role %(roles)s. Nothing was changed. Ask an admin for the "
            "role, or somebody who has it to do it."
        ) % {"who": who, "act": self.act, "roles": roles}


def roles_of(user: AbstractBaseUser | AnonymousUser | None) -> frozenset[Role]:
    """The roles that an active person has, read once per instance. Nobody has none."""
    if user is None or not user.is_active or user.pk is None:
        return frozenset()
    person = cast("Person", user)
    if person.roles_read is None:
        names = set(person.groups.values_list("name", flat=True))
        person.roles_read = frozenset(role for role in Role if role.value in names)
    return person.roles_read


def may(user: AbstractBaseUser | AnonymousUser | None, act: Act) -> bool:
    """True when one of the person's roles covers the act."""
    return not roles_of(user).isdisjoint(ACTS[act])


def require(user: AbstractBaseUser | AnonymousUser | None, act: Act) -> None:
    """The first line of a service. Raises NotAllowed."""
    if not may(user, act):
        raise NotAllowed(user.get_username() if user is not None and user.pk is not None else "", act)
