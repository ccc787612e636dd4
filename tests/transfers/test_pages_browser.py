"""The pages in Chromium: dragging, refreshing by themselves without losing what is typed, previews, narrow screens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, Route, expect
from pytest_django.live_server_helper import LiveServer

from calculet.people.models import Person
from tests.browser_fixtures import signing_in
from tests.transfers.factories import MEBIBYTE, PlannedHost, make_resource
from transfers.models import Build, BuildState, Item

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
expect.set_options(timeout=15_000)


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


@pytest.fixture
def page(browser: Browser, live_server: LiveServer, alice: Person) -> Iterator[Page]:
    """Alice's page. What the browser complains about fails the test."""
    with signing_in(browser, live_server.url) as sign_in:
        yield sign_in(alice)


def test_a_pack_is_dragged_to_another_place(page: Page, lab: PlannedHost) -> None:
    for name in ("one", "two", "three"):
        lab.add(name)
    page.goto(reverse("transfers:packs"))
    first = page.locator(".handle").nth(0).bounding_box()
    last = page.locator("table.packs tbody tr").nth(2).bounding_box()
    assert first is not None and last is not None
    page.mouse.move(first["x"] + 5, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(first["x"] + 5, last["y"] + last["height"] - 3, steps=10)
    page.mouse.up()
    expect(page.get_by_text("The order is as you set it.")).to_be_visible()
    assert list(lab.plan.packs.order_by("position").values_list("name", flat=True)) == ["two", "three", "one"]


def test_times_follow_while_a_pack_is_dragged_and_nothing_is_saved_before_it_is_dropped(
    page: Page, lab: PlannedHost
) -> None:
    packs = [lab.add(name, BuildState.PACKED) for name in ("one", "two", "three")]
    lab.capability("Work", [packs[0]])
    lab.measure(bytes_per_second=100_000)
    page.goto(reverse("transfers:packs"))
    times = page.locator(f"#times-{packs[0].pk}")
    expect(times).to_contain_text("expected in 42 s")
    first = page.locator(".handle").nth(0).bounding_box()
    last = page.locator("table.packs tbody tr").nth(2).bounding_box()
    assert first is not None and last is not None
    page.mouse.move(first["x"] + 5, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(first["x"] + 5, last["y"] + last["height"] - 3, steps=10)
    expect(times).to_contain_text("expected in 2 min 6 s")
    expect(page.locator(f"#needs-{lab.plan.pk}")).to_contain_text("Work: expected in 2 min 6 s")
    expect(page.locator(f"#curve-{lab.plan.pk} path.line.dragged")).to_have_count(2)  # in the picture and its key
    expect(times.locator("time")).to_have_attribute("data-local", "")
    assert list(lab.plan.packs.order_by("position")) == packs
    page.mouse.up()
    expect(page.get_by_text("The order is as you set it.")).to_be_visible()
    assert list(lab.plan.packs.order_by("position")) == [packs[1], packs[2], packs[0]]
    expect(page.locator("tr.dragged, path.dragged")).to_have_count(0)
    expect(page.locator("[data-place]")).to_have_text(["1", "2", "3"])
    expect(page.locator(f"#up-{packs[1].pk}")).to_be_disabled()
    page.get_by_role("button", name="Move one up").click()  # the answer brought the order that was seen
    expect(page.locator("a.named")).to_have_text(["two", "one", "three"])


def test_a_pack_is_moved_by_keys_with_its_times_and_escape_puts_it_back(page: Page, lab: PlannedHost) -> None:
    packs = [lab.add(name, BuildState.PACKED) for name in ("one", "two", "three")]
    lab.measure(bytes_per_second=100_000)
    page.goto(reverse("transfers:packs"))
    times, names = page.locator(f"#times-{packs[0].pk}"), page.locator("a.named")
    handle = page.get_by_role("button", name="Take one to another place")
    handle.focus()
    page.keyboard.press("Enter")
    expect(handle).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(times).to_contain_text("expected in 2 min 6 s")
    expect(names).to_have_text(["two", "three", "one"])
    page.keyboard.press("Escape")
    expect(names).to_have_text(["one", "two", "three"])
    expect(times).to_contain_text("expected in 42 s")
    expect(handle).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    expect(times).to_contain_text("expected in 1 min 24 s")
    assert list(lab.plan.packs.order_by("position")) == packs
    page.keyboard.press("Space")
    expect(page.get_by_text("The order is as you set it.")).to_be_visible()
    assert list(lab.plan.packs.order_by("position")) == [packs[1], packs[0], packs[2]]


def test_a_drop_on_an_order_that_somebody_changed_shows_the_order_as_it_is(page: Page, lab: PlannedHost) -> None:
    packs = [lab.add(name, BuildState.PACKED) for name in ("one", "two", "three")]
    page.goto(reverse("transfers:packs"))
    for place, pack in enumerate((packs[2], packs[0], packs[1]), 1):
        type(pack).objects.filter(pk=pack.pk).update(position=place)
    page.get_by_role("button", name="Take one to another place").focus()
    for key in ("Enter", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_text("Somebody changed the order in the meantime.")).to_be_visible()
    expect(page.locator("a.named")).to_have_text(["three", "one", "two"])


def _hold_refreshes(route: Route) -> None:
    if route.request.method == "GET" and route.request.headers.get("hx-request"):
        route.fulfill(status=204)
    else:
        route.continue_()


def test_of_two_browsers_the_later_one_is_refused_and_shown_the_order_as_it_is(page: Page, lab: PlannedHost) -> None:
    packs = [lab.add(name) for name in ("one", "two", "three")]
    page.route("**/packs/**", _hold_refreshes)  # this one has not heard of the other's act, however slow that is
    page.goto(reverse("transfers:packs"))
    other = page.context.new_page()
    other.goto(reverse("transfers:packs"))
    other.get_by_role("button", name="Move three up").click()
    expect(other.get_by_text("The order is as you set it.")).to_be_visible()
    page.get_by_role("button", name="Move one down").press("Enter")
    expect(page.get_by_text("Somebody changed the order in the meantime.")).to_be_visible()
    expect(page.locator("a.named")).to_have_text(["one", "three", "two"])
    assert list(lab.plan.packs.order_by("position")) == [packs[0], packs[2], packs[1]]
    page.get_by_role("button", name="Move one down").press("Enter")
    expect(page.locator("a.named")).to_have_text(["three", "one", "two"])


def test_the_board_refreshes_itself_and_keeps_what_is_being_typed(page: Page, lab: PlannedHost) -> None:
    pack = lab.add("moving", BuildState.FETCHING, chunk_count=4, proven=1)
    page.goto(reverse("transfers:packs"))
    expect(page.get_by_text("1.05 MB of 4.19 MB")).to_be_visible()
    Build.objects.filter(pack=pack).update(received_bytes=2 * MEBIBYTE)
    expect(page.get_by_text("2.10 MB of 4.19 MB")).to_be_visible()  # without a reload
    page.locator(f"#hold-{pack.pk} summary").click()
    page.locator(f"#reason-{pack.pk}").fill("a faster channel")
    Build.objects.filter(pack=pack).update(received_bytes=3 * MEBIBYTE)
    page.wait_for_timeout(3000)
    expect(page.locator(f"#reason-{pack.pk}")).to_have_value("a faster channel")
    page.locator(f"#hold-{pack.pk} form button").click()
    expect(page.get_by_text("moving is on hold.")).to_be_visible()
    expect(page.get_by_text("3.15 MB of 4.19 MB")).to_be_visible()


def test_opened_details_and_the_keyboard_s_place_survive_a_refresh(page: Page, lab: PlannedHost) -> None:
    lab.add("one")
    pack = lab.add("moving", BuildState.FETCHING, chunk_count=4, proven=1)
    page.goto(reverse("transfers:packs"))
    page.locator(f"#up-{pack.pk}").focus()
    Build.objects.filter(pack=pack).update(received_bytes=2 * MEBIBYTE)
    expect(page.get_by_text("2.10 MB of 4.19 MB")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == f"up-{pack.pk}"
    page.goto(reverse("transfers:pack", args=["lab", "moving"]))
    page.locator("#runs summary").click()
    Build.objects.filter(pack=pack).update(received_bytes=3 * MEBIBYTE)
    expect(page.get_by_text("3.15 MB of 4.19 MB")).to_be_visible()
    expect(page.locator("#runs")).to_have_attribute("open", "")


def test_nothing_is_asked_while_the_tab_is_hidden(page: Page, lab: PlannedHost) -> None:
    lab.add("moving", BuildState.FETCHING)
    page.goto(reverse("transfers:packs"))
    page.evaluate("window.hiddenNow = true; Object.defineProperty(document, 'hidden', {get: () => window.hiddenNow})")
    page.wait_for_load_state("networkidle")  # what was asked for before has come
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(3500)
    assert not asked
    with page.expect_request(lambda request: request.url.endswith(reverse("transfers:packs"))):
        page.evaluate("window.hiddenNow = false")


def test_the_preview_follows_the_rules_without_leaving_the_page(page: Page, lab: PlannedHost) -> None:
    make_resource(lab.host, "runtime", b"/opt/runtime", {b"a.txt": 100, b"big.bin": 9000})
    page.goto(reverse("transfers:plan", args=["lab"]))
    page.get_by_role("button", name="Draft a change").click()
    page.get_by_role("link", name="Add a pack").click()
    page.get_by_label("Pack", exact=True).fill("01-runtime")
    page.get_by_label("runtime · /opt/runtime").check()
    for rule, size in (("", "9.10 kB"), ("big.bin", "100 B")):
        page.get_by_label("But not these").fill(rule)
        page.get_by_role("button", name="Save and preview").click()
        expect(page.locator("#preview .figures dd").first).to_have_text(size)
    page.get_by_label("Only these").fill("!")
    page.get_by_role("button", name="Save and preview").click()
    expect(page.locator("#preview [role=alert]")).to_contain_text("cannot be understood")
    expect(page.get_by_label("But not these")).to_have_value("big.bin")
    page.get_by_label("Only these").fill("")
    page.get_by_role("button", name="Save, back to the plan").click()
    expect(page.get_by_text("01-runtime is in the draft.")).to_be_visible()
    assert Item.objects.get(pack__name="01-runtime").exclude_rules == ["big.bin"]


def test_no_page_is_wider_than_the_screen(page: Page, lab: PlannedHost) -> None:
    long = "a-very-long-name-of-a-pack-that-has-no-place-to-break-" * 2
    deviations = [{"name": "/" + "deep/" * 60, "what": "changed", "detail": "size " * 30}]
    held = lab.add("held", BuildState.NEEDS_DECISION, on_hold=True, hold_reason="w" * 200, deviations=deviations)
    moving = lab.add(long[:100], BuildState.FETCHING, chunk_count=200, proven=50, aim="aim " * 60)
    opened = lab.add("opened", BuildState.OPENED, problem="p" * 300)
    lab.capability("c" * 120, [held, moving], [opened])
    lab.measure()
    report = lab.report(opened)
    addresses = [
        "/",
        reverse("transfers:packs"),
        *(reverse("transfers:pack", args=["lab", pack.name]) for pack in (held, moving, opened)),
        reverse("transfers:plan-index"),
        reverse("transfers:plan", args=["lab"]),
        reverse("transfers:revision", args=["lab", 1]),
        reverse("transfers:plan-load", args=["lab"]),
        reverse("transfers:evidence"),
        reverse("transfers:report", args=[report.pk]),
    ]
    wide = {}
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        for address in addresses:
            page.goto(address)
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if over > 0:
                wide[width, address] = over
    assert wide == {}
