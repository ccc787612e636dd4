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

PROCESSES, EVENTS_EACH = 8, 25
WRITER = """
import os, sys
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from django.db import connection, transaction
from calculet.actors import Actor
from calculet.audit.services import record
for number in range(int(sys.argv[3])):
    with transaction.atomic():
        record(act="test.done", actor=Actor(None, sys.argv[2]), detail={"number": number})
connection.close()
"""


@pytest.mark.django_db(transaction=True)
def test_eight_processes_make_one_chain_without_a_gap() -> None:
    name = str(connection.settings_dict["NAME"])
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(root)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, name, f"writer {number}", str(EVENTS_EACH)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    told = [writer.communicate(timeout=100)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * PROCESSES, "\n".join(told)
    verdict = verify_chain()
    assert (str(verdict.reason), verdict.links) == ("", PROCESSES * EVENTS_EACH)
    for number in range(PROCESSES):
        own = Event.objects.filter(actor=f"writer {number}").order_by("sequence").values_list("detail", flat=True)
        assert list(own) == [f'{{"number":{order}}}' for order in range(EVENTS_EACH)]
