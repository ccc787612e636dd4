"""Eight processes write events at once: one chain, without a gap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from calculet.audit.models import Event
from calculet.audit.services import verify_chain

pytestmark = [pytest.mark.databases]

PROCESSES, EVENTS_EACH = 8, 250
# One start for all of them, since starting takes longer than writing; connections are made after the fork.
WRITERS = """
import os, sys
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from django.db import connection, transaction
from calculet.actors import Actor
from calculet.audit.services import record
children = []
for writer in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        for number in range(int(sys.argv[3])):
            with transaction.atomic():
                record(act="test.done", actor=Actor(None, f"writer {writer}"), detail={"number": number})
        connection.close()
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


@pytest.mark.django_db(transaction=True)
def test_eight_processes_make_one_chain_without_a_gap() -> None:
    name = str(connection.settings_dict["NAME"])
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", WRITERS, name, str(PROCESSES), str(EVENTS_EACH)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    verdict = verify_chain()
    assert (str(verdict.reason), verdict.links) == ("", PROCESSES * EVENTS_EACH)
    for number in range(PROCESSES):
        own = Event.objects.filter(actor=f"writer {number}").order_by("sequence").values_list("detail", flat=True)
        assert list(own) == [f'{{"number":{order}}}' for order in range(EVENTS_EACH)]
    assert Event.objects.values("previous_hash").distinct().count() == PROCESSES * EVENTS_EACH, (
        "no event has two after it"
    )
