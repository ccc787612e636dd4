"""How soon the board of a thousand packs answers a drop, and the question what an order would give while it is dragged.

    python -m benchmarks.drop_on_a_board [PACKS [DROPS]]

Both go through the real views, middleware and services, on a SQLite database in a temporary folder: a third of the
packs lie packed on the host, two thirds are yet to be made, six hours of goodput were measured. Told are the middle and
the 95th percentile of the clock, and the size of an answer.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(tempfile.mkdtemp(prefix="calculet-bench-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
os.environ.update(CALCULET_DATA_DIR=str(FOLDER), DJANGO_SETTINGS_MODULE="calculet.settings")
os.environ.update(CALCULET_ALLOWED_HOSTS="testserver", CALCULET_LOG_LEVEL="WARNING")

import django  # noqa: E402  (the settings read the environment)

django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402
from django.utils import timezone  # noqa: E402

import calculet.wsgi  # noqa: E402, F401  (garbage is collected as by the web server)
from calculet.http import ACT_KEY_FIELD, new_act_key  # noqa: E402
from calculet.people.models import Person  # noqa: E402
from calculet.people.roles import Role  # noqa: E402
from inventory.models import Channel, Host  # noqa: E402
from transfers.models import (  # noqa: E402
    Build,
    BuildState,
    Capability,
    CapabilityNeed,
    EntryList,
    GoodputMinute,
    Item,
    Landing,
    Pack,
    Plan,
    Revision,
    RevisionState,
)

MEBIBYTE = 2**20


def make_plan(count: int) -> tuple[Plan, Person]:
    """A plan in force with so many packs, and an operator."""
    person = Person.objects.create_user("operator")
    person.groups.add(Group.objects.get_or_create(name=Role.OPERATOR.value)[0])
    host = Host.objects.create(name="bench", staging_path=b"/var/tmp/staging")
    channel = Channel.objects.create(host=host, address="192.0.2.7", username="guest")
    plan = Plan.objects.create(host=host)
    landing = Landing.objects.create(name="home", path=str(FOLDER / "landing"), is_default=True)
    revision = Revision.objects.create(
        plan=plan, number=1, state=RevisionState.APPROVED, author=person, digest="1" * 64, decided_at=timezone.now()
    )
    _make_packs(plan, revision, landing, count)
    now = timezone.now().replace(second=0, microsecond=0)
    draw = random.Random(1)
    GoodputMinute.objects.bulk_create(
        GoodputMinute(
            host=host,
            channel=channel,
            at=now - timedelta(minutes=ago),
            lanes=8,
            seconds=60.0,
            new_bytes=60 * draw.randint(40_000, 120_000),
        )
        for ago in range(1, 361)
    )
    return plan, person


def _make_packs(plan: Plan, revision: Revision, landing: Landing, count: int) -> None:
    draw = random.Random(2)
    sizes = [draw.randint(10**5, 10**8) for _ in range(count)]
    lists = EntryList.objects.bulk_create(
        EntryList(digest=f"{at:064x}", entry_count=1, file_count=1, total_bytes=size, content=b"")
        for at, size in enumerate(sizes)
    )
    packs = Pack.objects.bulk_create(Pack(plan=plan, name=f"pack-{at:04d}", position=at + 1) for at in range(count))
    items = Item.objects.bulk_create(
        Item(revision=revision, pack=pack, position=pack.position, entry_list=one)
        for pack, one in zip(packs, lists, strict=True)
    )
    Build.objects.bulk_create(
        Build(
            pack=item.pack,
            number=1,
            item=item,
            state=BuildState.PLANNED if at % 3 else BuildState.PACKED,
            mode=item.mode,
            entry_list=item.entry_list,
            chunk_bytes=64 * MEBIBYTE,
            size_bytes=None if at % 3 else sizes[at] // 2,
            landing=landing,
            folder=f"bench/{item.pack.name}/1",
        )
        for at, item in enumerate(items)
    )
    capability = Capability.objects.create(plan=plan, name="Work")
    CapabilityNeed.objects.bulk_create(
        CapabilityNeed(capability=capability, group=at, pack=packs[at]) for at in range(0, count, count // 5)
    )


@dataclass
class Answers:
    """Seconds of the clock and of the processor that each answer took, and the size of the last one in bytes."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    size: int = 0

    def take(self, ask: Callable[[], Any]) -> None:
        """Ask once and measure."""
        begun, worked = time.perf_counter(), time.process_time()
        response = ask()
        self.clock.append(time.perf_counter() - begun)
        self.processor.append(time.process_time() - worked)
        assert response.status_code == 200, response.status_code
        self.size = len(response.content)

    def tell(self, what: str) -> None:
        """Print, without the first answer, for which modules were still being loaded."""
        clock, processor = sorted(self.clock[1:]), sorted(self.processor[1:])
        at_95 = max(-(-len(clock) * 95 // 100) - 1, 0)
        print(
            f"{what}: middle {statistics.median(clock) * 1000:.0f} ms, 95th percentile {clock[at_95] * 1000:.0f} ms "
            f"(processor {statistics.median(processor) * 1000:.0f} and {processor[at_95] * 1000:.0f} ms); "
            f"an answer has {self.size / 1000:.0f} kB"
        )


def main() -> None:
    """Measure and print."""
    count, drops = (int(text) for text in [*sys.argv[1:3], *("1000", "40")[len(sys.argv) - 1 :]])
    call_command("migrate", verbosity=0)
    plan, person = make_plan(count)
    client, draw = Client(), random.Random(3)
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")

    def moved() -> tuple[list[int], list[int]]:
        seen = list(plan.packs.order_by("position").values_list("pk", flat=True))
        wanted = list(seen)
        wanted.insert(draw.randrange(count), wanted.pop(draw.randrange(count)))
        return seen, wanted

    def drop() -> Any:
        return client.post(reverse("transfers:order", args=["bench"]), asked, headers={"HX-Request": "true"})

    def ask() -> Any:
        return client.post(reverse("transfers:times", args=["bench"]), {"order": order}, headers={"HX-Request": "true"})

    dropped, questions, pages = Answers(), Answers(), Answers()
    for _ in range(drops + 1):
        seen, wanted = moved()
        asked = {
            "seen_ids": ",".join(map(str, seen)),
            "order": ",".join(map(str, wanted)),
            ACT_KEY_FIELD: new_act_key(),
        }
        dropped.take(drop)
    for _ in range(drops + 1):
        order = ",".join(map(str, moved()[1]))
        questions.take(ask)
    for _ in range(4):
        pages.take(lambda: client.get(reverse("transfers:packs")))
    dropped.tell(f"{count} packs, a drop")
    questions.tell(f"{count} packs, a question while dragging")
    pages.tell(f"{count} packs, the whole page")


if __name__ == "__main__":
    main()
