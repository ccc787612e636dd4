"""Any two revisions stand side by side: packs, what differs in them, and which entries came, went or changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from calculet.people.models import Person
from tests.transfers.factories import PlannedHost, make_list, make_proposal_of_plan
from transfers.models import Item, Mode
from transfers.selectors import comparison
from transfers.selectors.comparison import list_change

SignedIn = Callable[[Person], Client]
ADDRESS = "/plans/lab/compare/"


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    """Revision 1 holds kept, changed and dropped; revision 2 holds kept, changed and new."""
    made = PlannedHost(alice, tmp_path)
    kept, changed = made.add("kept"), made.add("changed", files=[(b"<c>", 3), (b"a", 1), (b"b", 2)])
    made.add("dropped")
    new = made.plan.packs.create(name="new", position=9)
    after = make_proposal_of_plan(made.plan, alice, [kept, changed, new])
    old = {item.pack.name: item for item in made.revision.items.select_related("pack")}
    Item.objects.filter(revision=after, pack=kept).update(
        entry_list=old["kept"].entry_list, chunk_bytes=old["kept"].chunk_bytes
    )
    entries = make_list([(b"changed/<c>", 4), (b"changed/b", 2), (b"changed/z\n", 5)])
    Item.objects.filter(revision=after, pack=changed).update(entry_list=entries, exclude_rules=["*.o"])
    return made


def rows_of(page: str) -> dict[str, str]:
    return {row.split("</b>")[0]: row for row in page.split('<tr><td class="whole"><b>')[1:]}


def page_of(client: Client, **asked: str) -> str:
    response = client.get(ADDRESS, asked)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


@pytest.mark.django_db
def test_each_pack_says_what_became_of_it(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    rows = rows_of(page_of(signed_in(bob)))
    assert list(rows) == ["kept", "changed", "new", "dropped"]
    assert [re.findall(r'class="state \w+">(\w+)<', row)[0] for row in rows.values()] == [
        "same",
        "changed",
        "added",
        "removed",
    ]
    changed = rows["changed"]
    assert "what stays out" in changed and "list of files" in changed and "<code>*.o</code>" in changed
    assert "List: 1 entries added, 1 removed, 1 changed" in changed
    names = re.findall(r'<li class="name">(. [^<]*)</li>', changed)
    assert names == ["+ /changed/z\\n", "− /changed/a", "≠ /changed/&lt;c&gt;"]


@pytest.mark.django_db
def test_the_other_way_round_what_was_added_is_removed(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    rows = rows_of(page_of(signed_in(bob), before="2", after="1"))
    assert "removed" in rows["new"] and "added" in rows["dropped"]
    assert "+ /changed/a" in rows["changed"]


@pytest.mark.django_db
@pytest.mark.parametrize("asked", [{"before": "77"}, {"after": "x"}, {"before": "", "after": ""}])
def test_a_revision_that_is_not_there_is_the_newest_or_the_one_before(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, asked: dict[str, str]
) -> None:
    page = page_of(signed_in(bob), **asked)
    assert '<option value="1" selected>' in page and '<option value="2" selected>' in page


@pytest.mark.django_db
def test_one_revision_alone_is_the_same_as_itself(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    lab.plan.revisions.filter(number=2).delete()
    assert set(
        re.findall(r'<td class="whole"><b>[^<]*</b><br><span class="state \w+">(\w+)<', page_of(signed_in(bob)))
    ) == {"same"}


@pytest.mark.django_db
def test_lists_that_are_too_long_or_not_sorted_are_not_compared(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MOST_ENTRIES", 5)
    assert "too long to be compared" in page_of(signed_in(bob))
    Item.objects.filter(revision__number=2).update(mode=Mode.PARTS)
    page = page_of(signed_in(bob))
    assert "too long" not in page and "List:" not in page


@pytest.mark.django_db
def test_a_plan_without_revisions_has_nothing_to_compare(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    lab.plan.packs.all().update(position=1)
    other = PlannedHost(lab.author, lab.landing_path, name="other")
    other.revision.delete()
    page = signed_in(bob).get("/plans/other/compare/", follow=True).content.decode()
    assert "nothing to compare" in page


class TestLists(TestCase):
    """Lists as people have them."""

    NAMES = st.dictionaries(st.binary(min_size=1, max_size=3).filter(lambda name: b"\0" not in name), st.integers(0, 3))

    @given(NAMES, NAMES)
    @hypothesis_settings(max_examples=40, deadline=None)
    def test_what_came_went_and_changed_is_what_sets_say(self, old: dict[bytes, int], new: dict[bytes, int]) -> None:
        found = list_change(make_list(sorted(old.items())), make_list(sorted(new.items())))
        assert (found.added, found.removed) == (len(new.keys() - old.keys()), len(old.keys() - new.keys()))
        assert found.changed == sum(old[name] != new[name] for name in old.keys() & new.keys())
        assert len(found.first_added) == min(found.added, comparison.LISTED_NAMES)
