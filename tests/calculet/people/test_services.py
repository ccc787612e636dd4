"""Roles are given by acts, the last admin stays, and a link works once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people import services
from calculet.people.commands import actor_of_command
from calculet.people.models import OneTimeLink, Person
from calculet.people.roles import ACTS, Act, NotAllowed, Role, may, require

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

PASSWORD = "a long enough secret 7"


def acts() -> list[str]:
    return list(Event.objects.order_by("sequence").values_list("act", flat=True))


@pytest.fixture
def by_ada(ada: Person) -> Actor:
    return Actor.of(ada)


def test_the_table_names_every_act_and_gives_each_to_somebody() -> None:
    assert set(ACTS) == set(Act)
    assert all(ACTS.values())


def test_somebody_without_a_role_may_do_nothing(carol: Person) -> None:
    assert [act for act in Act if may(carol, act)] == []
    with pytest.raises(NotAllowed, match=r"“carol” may not do this .* needs the role admin or approver"):
        require(carol, Act.VIEW)


def test_being_a_superuser_grants_nothing(carol: Person) -> None:
    Person.objects.filter(pk=carol.pk).update(is_superuser=True, is_staff=True)
    carol.refresh_from_db()
    assert not may(carol, Act.VIEW)


def test_an_admin_does_not_approve_unless_approver_too(ada: Person) -> None:
    assert not may(ada, Act.PLAN_APPROVE)
    ada.roles_read = None
    services.role_give(actor=Actor.of(ada), person=ada, role=Role.APPROVER)
    assert may(ada, Act.PLAN_APPROVE)


def test_only_admins_change_people(alice: Person, carol: Person) -> None:
    for act in (
        lambda: services.person_create(actor=Actor.of(alice), username="eve"),
        lambda: services.role_give(actor=Actor.of(alice), person=carol, role=Role.VIEWER),
        lambda: services.role_withdraw(actor=Actor.of(alice), person=alice, role=Role.PLANNER),
        lambda: services.person_shut_out(actor=Actor.of(alice), person=carol),
        lambda: services.person_let_in(actor=Actor.of(alice), person=carol),
        lambda: services.password_link_make(actor=Actor.of(alice), person=carol),
    ):
        with pytest.raises(NotAllowed):
            act()
    assert acts() == []


def test_each_change_of_a_role_is_one_event_and_none_without_a_change(by_ada: Actor, carol: Person) -> None:
    assert services.role_give(actor=by_ada, person=carol, role=Role.VIEWER)
    assert not services.role_give(actor=by_ada, person=carol, role=Role.VIEWER)
    assert carol.may(Act.VIEW)
    assert services.role_withdraw(actor=by_ada, person=carol, role=Role.VIEWER)
    assert not services.role_withdraw(actor=by_ada, person=carol, role=Role.VIEWER)
    assert not carol.may(Act.VIEW)
    assert acts() == ["role.given", "role.withdrawn"]
    assert set(Event.objects.values_list("actor", "subject_label")) == {("ada", "carol")}


def test_the_last_admin_keeps_role_and_account(by_ada: Actor, ada: Person, carol: Person) -> None:
    with pytest.raises(services.LastAdmin, match="Make somebody else admin first"):
        services.role_withdraw(actor=by_ada, person=ada, role=Role.ADMIN)
    with pytest.raises(services.LastAdmin):
        services.person_shut_out(actor=by_ada, person=ada)
    services.role_give(actor=by_ada, person=carol, role=Role.ADMIN)
    services.person_shut_out(actor=by_ada, person=carol)
    with pytest.raises(services.LastAdmin):  # one who is shut out does not count
        services.role_withdraw(actor=by_ada, person=ada, role=Role.ADMIN)
    services.person_let_in(actor=by_ada, person=carol)
    assert services.role_withdraw(actor=by_ada, person=ada, role=Role.ADMIN)


def test_a_taken_name_is_told_and_changes_nothing(by_ada: Actor, carol: Person) -> None:
    with pytest.raises(services.NameTaken, match="somebody called “carol” already"):
        services.person_create(actor=by_ada, username="carol", roles=[Role.ADMIN])
    assert acts() == []
    assert not carol.roles


def test_a_new_person_cannot_sign_in_before_a_password_is_set(by_ada: Actor) -> None:
    person = services.person_create(actor=by_ada, username="eve", full_name="Eve", roles=[Role.VIEWER])
    assert not person.has_usable_password()
    assert person.roles == {Role.VIEWER}
    services.password_set_by_link(token=services.password_link_make(actor=by_ada, person=person), password=PASSWORD)
    assert Person.objects.get(pk=person.pk).check_password(PASSWORD)
    assert acts() == ["person.created", "password.link_made", "password.set"]


def test_a_password_link_works_once(by_ada: Actor, carol: Person) -> None:
    token = services.password_link_make(actor=by_ada, person=carol)
    services.password_set_by_link(token=token, password=PASSWORD)
    with pytest.raises(services.LinkSpent):
        services.password_set_by_link(token=token, password="another long secret 8")
    assert Person.objects.get(pk=carol.pk).check_password(PASSWORD)


def test_a_newer_link_ends_the_older(by_ada: Actor, carol: Person) -> None:
    older = services.password_link_make(actor=by_ada, person=carol)
    newer = services.password_link_make(actor=by_ada, person=carol)
    with pytest.raises(services.LinkSpent):
        services.link_find(token=older)
    assert services.link_find(token=newer).person == carol


def test_a_link_expires(by_ada: Actor, carol: Person) -> None:
    token = services.password_link_make(actor=by_ada, person=carol)
    OneTimeLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(services.LinkSpent):
        services.link_find(token=token)


def test_a_link_of_somebody_shut_out_is_spent(by_ada: Actor, carol: Person) -> None:
    token = services.password_link_make(actor=by_ada, person=carol)
    services.person_shut_out(actor=by_ada, person=carol)
    services.person_let_in(actor=by_ada, person=carol)
    with pytest.raises(services.LinkSpent):
        services.password_set_by_link(token=token, password=PASSWORD)


def test_tokens_are_not_kept(by_ada: Actor, carol: Person) -> None:
    token = services.password_link_make(actor=by_ada, person=carol)
    kept = str(list(OneTimeLink.objects.values_list())) + str(list(Event.objects.values_list()))
    assert token not in kept


def test_the_first_admin_is_made_once() -> None:
    token = services.setup_link_make()
    assert token is not None
    person = services.setup_finish(token=token, username="ada", password=PASSWORD)
    assert person.roles == {Role.ADMIN}
    with pytest.raises(services.LinkSpent):
        services.setup_finish(token=token, username="eve", password=PASSWORD)
    assert services.setup_link_make() is None
    assert acts() == ["setup.link_made", "person.created"]


def test_of_two_starts_only_the_later_link_works() -> None:
    first, second = services.setup_link_make(), services.setup_link_make()
    assert first is not None
    assert second is not None
    with pytest.raises(services.LinkSpent):
        services.setup_finish(token=first, username="ada", password=PASSWORD)
    services.setup_finish(token=second, username="ada", password=PASSWORD)


def test_a_setup_link_is_void_once_there_is_an_admin(by_ada: Actor, ada: Person) -> None:
    Person.objects.filter(pk=ada.pk).update(is_active=False)
    token = services.setup_link_make()
    assert token is not None
    Person.objects.filter(pk=ada.pk).update(is_active=True)
    with pytest.raises(services.LinkSpent):
        services.setup_finish(token=token, username="eve", password=PASSWORD)


def test_a_setup_link_sets_nobodys_password(carol: Person) -> None:
    token = services.setup_link_make()
    assert token is not None
    with pytest.raises(services.LinkSpent):
        services.password_set_by_link(token=token, password=PASSWORD)


def test_add_person_prints_the_path_of_a_link_and_may_be_repeated() -> None:
    for roles in (["--role", "planner"], ["--role", "operator"]):
        out = StringIO()
        call_command("add_person", "eve", *roles, stdout=out)
        token = out.getvalue().strip().removeprefix("/people/link/").removesuffix("/")
        assert services.link_find(token=token).person == Person.objects.get(username="eve")
    assert Person.objects.get(username="eve").roles == {Role.PLANNER, Role.OPERATOR}
    assert all(actor.startswith("command line (") for actor in Event.objects.values_list("actor", flat=True))


def test_add_person_refuses_a_name_that_could_not_sign_in() -> None:
    with pytest.raises(CommandError, match="“two words” cannot be a sign-in name"):
        call_command("add_person", "two words")
    assert not Person.objects.exists()


def test_a_command_acts_for_the_only_person_or_for_the_one_named(person: Callable[..., Person]) -> None:
    with pytest.raises(CommandError, match="Nobody is here yet"):
        actor_of_command({"as_person": None})
    eve = person("eve")
    assert actor_of_command({"as_person": None}).user == eve
    person("mallory")
    with pytest.raises(CommandError, match="Say in whose name"):
        actor_of_command({"as_person": None})
    assert actor_of_command({"as_person": "eve"}).user == eve
    with pytest.raises(CommandError, match="no active person called “oscar”"):
        actor_of_command({"as_person": "oscar"})
