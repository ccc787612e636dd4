"""Background work: one Celery application, three named queues, a short tick.

| queue   | what runs there                                | length  |
|---------|------------------------------------------------|---------|
| control | tick, probe, small acts                        | seconds |
| link    | one link a host                                | hours   |
| crunch  | scans, packing, verify, open, unpack, report   | minutes |

Messages are hints: every task takes one id, may be lost, doubled or late, and the rows decide.
"""

from __future__ import annotations

import os

from celery import Celery
from django.conf import settings
from kombu.entity import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "calculet.settings")

QUEUE_NAMES = ("control", "link", "crunch")
TICK_SECONDS = 2.0
# Workers find one another over the rows, so they need not chat over the broker.
WORKER_OPTIONS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")

app = Celery("calculet")
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # a broker that restarts is waited for; the supervisor bounds the rest
    # A link holds its message for hours where it acknowledges late; a day keeps the broker from handing it out twice.
    broker_transport_options={"visibility_timeout": 86_400, "socket_timeout": 30.0},
    task_queues=[Queue(name, routing_key=name) for name in QUEUE_NAMES],  # type: ignore[no-untyped-call]
    task_default_queue="control",
    task_routes={  # what is not named here takes seconds
        "calculet.audit.tasks.anchor_chain": {"queue": "crunch"},
        "transfers.tasks.run_link": {"queue": "link"},
        "inventory.tasks.run_scan": {"queue": "crunch"},
        "inventory.tasks.run_digests": {"queue": "crunch"},
        "inventory.tasks.look_inside": {"queue": "crunch"},
        "inventory.tasks.take_snapshot": {"queue": "crunch"},
        "inventory.tasks.offer_snapshot": {"queue": "crunch"},
        "inventory.tasks.measure_overlaps": {"queue": "crunch"},
        "transfers.tasks.look_inside_here": {"queue": "crunch"},
        "transfers.tasks.read_had": {"queue": "crunch"},
        "transfers.tasks.count_had": {"queue": "crunch"},
        "transfers.tasks.adopt_bytes": {"queue": "crunch"},
        "transfers.tasks.examine_link": {"queue": "crunch"},
        "transfers.tasks.pack_build": {"queue": "crunch"},
        "transfers.tasks.verify_build": {"queue": "crunch"},
        "transfers.tasks.open_build": {"queue": "crunch"},
        "transfers.tasks.recheck_build": {"queue": "crunch"},
        "transfers.tasks.run_unpack": {"queue": "crunch"},
        "transfers.tasks.make_report": {"queue": "crunch"},
        "transfers.tasks.take_sample": {"queue": "crunch"},
        "transfers.tasks.compare_pack": {"queue": "crunch"},
        "transfers.tasks.reckon_states": {"queue": "crunch"},
    },
    task_create_missing_queues=False,  # a misspelt queue must fail where it is sent, not gather messages for ever
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    result_backend=None,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    task_acks_late=False,
    enable_utc=True,
    timezone="UTC",
    beat_schedule_filename=str(settings.RUN_DIR / "beat-schedule"),
    beat_schedule={
        "tick": {
            "task": "transfers.tasks.tick",
            "schedule": TICK_SECONDS,
            # A tick that waited longer than the next one's time has nothing to add.
            "options": {"queue": "control", "expires": TICK_SECONDS},
        },
        "tidy": {"task": "calculet.tasks.tidy_up", "schedule": 86_400.0, "options": {"queue": "control"}},
    },
)
app.autodiscover_tasks()
