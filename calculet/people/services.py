"""Writes about people: who is here, with which roles, and how they get a password.

The product's own commands act as nobody in particular (`actor.user` is None): whoever may run them owns the machine.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.actors import SYSTEM, Actor
from calculet.audit.services import record
from calculet.people.models import OneTimeLink, Person
from calculet.people.roles import Act, Role, require

LINK_LIFE = timedelta(hours=24)


class PeopleError(Exception):
    """Something about people cannot be done. `str()` is the sentence to show."""


class LastAdmin(PeopleError):
    def __str__(self) -> str:
        return _(
            "This is the last active admin, so the role and the account stay. Nothing was changed. Make somebody else "
            "admin first."
        )


class LinkSpent(PeopleError):
    def __str__(self) -> str:
        return _(
            "This link was used, has expired, or was replaced by a newer one. Nothing was changed. Ask an admin for a "
            "new link; for the first admin, start the product again."
        )


@dataclass(eq=False)
class NameTaken(PeopleError):
    username: str

    def __str__(self) -> str:
        return _("There is somebody called “%(name)s” already. Nothing was changed. Choose another name.") % {
            "name": self.username
        }


@dataclass(eq=False)
class NameWrong(PeopleError):
    username: str

    def __str__(self) -> str:
        return _(
            "“%(name)s” cannot be a sign-in name. Nothing was changed. A sign-in name has 1 to 150 letters, digits and "
            "@ . + - _ without blanks."
        ) % {"name": self.username}


def person_create(*, actor: Actor, username: str, full_name: str = "", roles: Iterable[Role] = ()) -> Person:
    """Add a person who has no password yet (see `password_link_make`). Raises NotAllowed, NameWrong, NameTaken."""
    _allow(actor)
    try:
        Person._meta.get_field("username").clean(username, None)
    except ValidationError as error:
        raise NameWrong(username) from error
    wanted = sorted(set(roles))
    try:
        with transaction.atomic():
            person = Person(username=username, first_name=full_name)
            person.set_unusable_password()
            person.save(force_insert=True)
            for role in wanted:
                person.groups.add(_group(role))
            record(act="person.created", actor=actor, subject=person, detail={"roles": wanted, "name": full_name})
    except IntegrityError as error:
        raise NameTaken(username) from error
    return person


def role_give(*, actor: Actor, person: Person, role: Role) -> bool:
    """Give a role; False when the person has it already. Raises NotAllowed."""
    _allow(actor)
    with transaction.atomic():
        group = _group(role)
        if person.groups.filter(pk=group.pk).exists():
            return False
        person.groups.add(group)
        record(act="role.given", actor=actor, subject=person, detail={"role": role})
    _forget_roles(person)
    return True


def role_withdraw(*, actor: Actor, person: Person, role: Role) -> bool:
    """Withdraw a role and end the person's sessions; False when the person does not have it.

    Raises NotAllowed, LastAdmin.
    """
    _allow(actor)
    with transaction.atomic():
        group = _group(role)
        if not person.groups.filter(pk=group.pk).exists():
            return False
        if role is Role.ADMIN:
            _refuse_last_admin(person)
        person.groups.remove(group)
        _end_sessions(person)
        record(act="role.withdrawn", actor=actor, subject=person, detail={"role": role})
    _forget_roles(person)
    return True


def roles_set(*, actor: Actor, person: Person, roles: Iterable[Role]) -> None:
    """Make a person's roles those that are given, all or nothing; each change is an event of its own.

    Raises NotAllowed, LastAdmin.
    """
    _allow(actor)
    wanted = frozenset(roles)
    with transaction.atomic():
        for role in Role:
            if role in wanted:
                role_give(actor=actor, person=person, role=role)
            else:
                role_withdraw(actor=actor, person=person, role=role)


def person_shut_out(*, actor: Actor, person: Person) -> bool:
    """Let a person not sign in any more, at once; their acts stay in the log. Raises NotAllowed, LastAdmin."""
    _allow(actor)
    with transaction.atomic():
        _refuse_last_admin(person)
        if not Person.objects.filter(pk=person.pk, is_active=True).update(is_active=False):
            return False
        _end_sessions(person)
        OneTimeLink.objects.filter(person=person, used_at=None).delete()
        record(act="person.shut_out", actor=actor, subject=person)
    person.is_active = False
    return True


def person_let_in(*, actor: Actor, person: Person) -> bool:
    """Let a person sign in again. Raises NotAllowed."""
    _allow(actor)
    with transaction.atomic():
        if not Person.objects.filter(pk=person.pk, is_active=False).update(is_active=True):
            return False
        record(act="person.let_in", actor=actor, subject=person)
    person.is_active = True
    return True


def password_link_make(*, actor: Actor, person: Person) -> str:
    """The token of a fresh one-time link by which the person sets a password; older ones end. Raises NotAllowed."""
    _allow(actor)
    with transaction.atomic():
        OneTimeLink.objects.filter(person=person, used_at=None).delete()
        token = _link(OneTimeLink.Purpose.PASSWORD, person)
        record(act="password.link_made", actor=actor, subject=person)
    return token


def setup_link_make() -> str | None:
    """The token of the link that makes the first admin; None when there is an active admin."""
    if _admins().exists():
        return None
    with transaction.atomic():
        OneTimeLink.objects.filter(purpose=OneTimeLink.Purpose.SETUP, used_at=None).delete()
        token = _link(OneTimeLink.Purpose.SETUP, None)
        record(act="setup.link_made", actor=SYSTEM)
    return token


def link_find(*, token: str) -> OneTimeLink:
    """The link of a token, as long as it can be used. Raises LinkSpent."""
    now = timezone.now()
    link = OneTimeLink.objects.select_related("person").filter(
        token_sha256=_hash(token), used_at=None, expires_at__gt=now
    )
    found = link.first()
    if found is None or (found.person is not None and not found.person.is_active):
        raise LinkSpent
    return found


def setup_finish(*, token: str, username: str, password: str, origin: str = "") -> Person:
    """Make the first admin by the set-up link. Raises LinkSpent, NameTaken."""
    with transaction.atomic():
        group = _group(Role.ADMIN)
        _spend(link_find(token=token))
        if _admins().exists():
            raise LinkSpent
        try:
            with transaction.atomic():
                person = Person.objects.create_user(username, password=password)
        except IntegrityError as error:
            raise NameTaken(username) from error
        person.groups.add(group)
        record(
            act="person.created",
            actor=Actor.of(person, origin=origin),
            subject=person,
            detail={"roles": [Role.ADMIN], "by": "set-up link"},
        )
    return person


def password_set_by_link(*, token: str, password: str, origin: str = "") -> Person:
    """Set a person's password by a one-time link, and end their sessions. Raises LinkSpent."""
    with transaction.atomic():
        link = link_find(token=token)
        if link.person is None:
            raise LinkSpent
        _spend(link)
        person = link.person
        person.set_password(password)
        person.save(update_fields=["password"])
        _end_sessions(person)
        record(
            act="password.set",
            actor=Actor.of(person, origin=origin),
            subject=person,
            detail={"by": "one-time link"},
        )
    return person


def password_change(*, person: Person, password: str, origin: str = "") -> None:
    """Set one's own password; the other sessions end, since a session is bound to the password."""
    with transaction.atomic():
        person.set_password(password)
        person.save(update_fields=["password"])
        record(act="password.set", actor=Actor.of(person, origin=origin), subject=person, detail={"by": "themselves"})


def session_note(*, actor: Actor, began: bool) -> None:
    """Record that a person signed in or out."""
    with transaction.atomic():
        record(act="session.began" if began else "session.ended", actor=actor, subject=actor.user)


def _allow(actor: Actor) -> None:
    if actor.user is not None:
        require(actor.user, Act.PEOPLE_MANAGE)


def _group(role: Role) -> Group:
    """The role's group, locked: two admins who withdraw each other's role wait for one another here."""
    group, _made = Group.objects.select_for_update().get_or_create(name=role.value)
    return group


def _admins() -> QuerySet[Person]:
    return Person.objects.filter(is_active=True, groups__name=Role.ADMIN.value)


def _refuse_last_admin(person: Person) -> None:
    _group(Role.ADMIN)
    if _admins().filter(pk=person.pk).exists() and not _admins().exclude(pk=person.pk).exists():
        raise LastAdmin


def _end_sessions(person: Person) -> None:
    Person.objects.filter(pk=person.pk).update(session_epoch=F("session_epoch") + 1)
    person.refresh_from_db(fields=["session_epoch"])


def _forget_roles(person: Person) -> None:
    person.roles_read = None


def _link(purpose: OneTimeLink.Purpose, person: Person | None) -> str:
    token, now = secrets.token_urlsafe(32), timezone.now()
    OneTimeLink.objects.create(
        purpose=purpose, person=person, token_sha256=_hash(token), made_at=now, expires_at=now + LINK_LIFE
    )
    return token


def _spend(link: OneTimeLink) -> None:
    """Use a link up; of two that race, one wins. Raises LinkSpent."""
    if not OneTimeLink.objects.filter(pk=link.pk, used_at=None).update(used_at=timezone.now()):
        raise LinkSpent


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
