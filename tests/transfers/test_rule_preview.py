"""The preview of rules: right against a plain reckoning, told while they are typed, and not made twice."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse
from hypothesis import HealthCheck, given, settings

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Entry, Host, Resource, Scan
from inventory.remote.names import RemoteName
from inventory.selectors import latest_scan
from tests.inventory.browser import SignedIn
from tests.transfers.test_plans import draft_with, preview, resource_of
from tests.transfers.test_rule_masks import listing, rule_lists, trees
from transfers.models import Item
from transfers.rules import RuleError, Rules
from transfers.selectors import taking
from transfers.selectors.specs import list_members
from transfers.services import plans
from transfers.services.entry_lists import item_evaluate

FILES = {b"a/": 0, b"a/big": 900, b"a/b/": 0, b"a/b/x.o": 50, b"a/b/y.c": 5, b"c/": 0, b"c/z.o": 70, b"top": 1}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees, rule_lists, rule_lists)
def test_what_is_taken_is_what_a_plain_reckoning_takes(
    names: list[bytes], include: list[str], exclude: list[str]
) -> None:
    columns, entries = listing(names)
    scan = Scan(root=RemoteName(b"/r"), folders=1, key=uuid.uuid4())
    try:
        rules = Rules(include, exclude)
    except RuleError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taking, "columns_of", lambda _scan: columns)
        taken = taking.take(scan, include, exclude)
    is_in = {name: rules.is_in(name, is_folder=is_folder) for name, is_folder in entries}
    expected = set()
    for name, is_folder in entries:
        below = (other for other in is_in if other.startswith(name + b"/") or not name)
        if is_in[name] or (is_folder and any(is_in[other] for other in below if other != name)):
            expected.add(b"/".join(part for part in (b"r", name) if part))
    assert [member.name for member in taken.members()] == sorted(expected, key=lambda name: name.split(b"/"))
    left_out = [name for name, is_folder in entries if not is_folder and not is_in[name]]
    assert (taken.without.entry_count, taken.without.total_bytes) == (len(left_out), len(left_out))
    assert taken.within.total_bytes == sum(not is_folder and is_in[name] for name, is_folder in entries)


def test_the_largest_folders_add_up_and_the_largest_gives_way_to_what_is_in_it() -> None:
    paths = [b"a/b/%d" % number for number in range(8)] + [b"a/c/1", b"d/1", b"top"]
    columns, _entries = listing(paths)
    side = taking.Side(columns, b"\1" * columns.count)
    assert side.largest_folders() == [(b"a/b", 8), (b"a/c", 1), (b"d", 1)]
    one_in = bytes(columns.name(number) == b"a/b/3" for number in range(columns.count))
    assert taking.Side(columns, one_in).largest_folders() == [(b"a/b", 1)]
    assert taking.Side(columns, bytes(columns.count)).largest_folders() == []


pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))


@pytest.fixture
def tree(host: Host) -> Resource:
    return resource_of(host, "tree", b"/t", FILES)


def test_links_come_with_their_targets(host: Host, tree: Resource, alice: Person) -> None:
    scan = latest_scan(tree)
    assert scan is not None
    for number, target in enumerate((b"first", b"", b"\xff third")):
        name = RemoteName(b"z%d" % number)
        Entry.objects.create(scan=scan, position=100 + number, name=name, kind="link", link_target=target)
    item = draft_with(host, alice, "one", tree, include=["z*", "top"])
    preview(item, alice)
    item.refresh_from_db()
    assert item.entry_list is not None
    links = [(one.name, one.link_target) for one in list_members(item.entry_list) if one.kind == "link"]
    assert links == [(b"t/z0", b"first"), (b"t/z1", b""), (b"t/z2", b"\xff third")]


def test_counts_are_told_while_rules_are_typed_and_nothing_is_saved(
    host: Host, tree: Resource, alice: Person, carol: Person, signed_in: SignedIn
) -> None:
    plans.draft_start(host=host, actor=Actor.of(alice))
    address = reverse("transfers:item-counts", args=[host.name])
    typed = {"resources": str(tree.pk), "exclude_rules": "*.o\n*.never", "include_rules": ""}
    page = signed_in(alice).post(address, typed).text
    assert "As typed, not saved" in page and "906\xa0B" in page and "120\xa0B" in page
    assert "The rule “*.never” matches nothing." in page and "/t/a/" in page and "/t/c/" in page
    assert "cannot be understood" in signed_in(alice).post(address, {**typed, "include_rules": "a\\"}).text
    assert not Item.objects.exists() and signed_in(carol).post(address, typed).status_code == 403
    inner = Resource.objects.create(host=host, name="inner", path=RemoteName(b"/t/a"))
    nested = signed_in(alice).post(address, {**typed, "resources": [str(tree.pk), str(inner.pk)]}).text
    assert "As typed" not in nested, "entries would be counted twice"


def test_a_preview_shows_the_largest_folders_of_each_side_and_keeps_them(
    host: Host, tree: Resource, alice: Person, signed_in: SignedIn
) -> None:
    item = draft_with(host, alice, "one", tree, exclude=["*.o"])
    seen = preview(item, alice)
    assert seen.largest_in == [("/t/a/b", 5)] and seen.largest_out == [("/t/c", 70), ("/t/a", 50)]
    page = signed_in(alice).get(reverse("transfers:item", args=[host.name, item.pk])).text
    assert "Largest folders that go in" in page and "/t/c/" in page


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of packs whose rules are evaluated from now on."""
    evaluated: list[str] = []

    def counted(item: Item) -> object:
        evaluated.append(item.pack.name)
        return item_evaluate(item)

    monkeypatch.setattr(plans, "item_evaluate", counted)
    return evaluated


def test_proposing_evaluates_only_what_is_not_known(
    host: Host, tree: Resource, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated = watched(monkeypatch)
    actor = Actor.of(alice)
    first = draft_with(host, alice, "one", tree, include=["*.c"])
    preview(first, alice)
    second = draft_with(host, alice, "two", tree, include=["a/"])
    preview(second, alice)
    draft_with(host, alice, "three", tree, include=["top"])
    evaluated.clear()
    revision = plans.revision_propose(revision=first.revision, actor=actor)
    assert evaluated == ["three"], "the others stand as they were looked at"
    assert [item.warnings for item in revision.items.order_by("position")] == [
        [],
        ["Pack “one” carries 1 of these files as well (5 bytes)."],
        [],
    ]
    plans.revision_withdraw(revision=revision, actor=actor)


def test_a_list_is_made_anew_when_what_it_rests_on_changed(
    host: Host, tree: Resource, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = draft_with(host, alice, "one", tree, include=["*.c"])
    second = draft_with(host, alice, "two", tree, include=["a/"])
    preview(first, alice)
    preview(second, alice)
    preview(draft_with(host, alice, "one", tree, include=["a/b/x.o"]), alice)
    evaluated = watched(monkeypatch)
    revision = plans.revision_propose(revision=first.revision, actor=Actor.of(alice))
    assert evaluated == ["two"], "what lies before it changed"
    assert "50 bytes" in revision.items.get(pack__name="two").warnings[0]
