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
from collections.abc import Iterable

from celery import Celery
from django.conf import settings
from kombu.entity import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "calculet.settings")

QUEUE_NAMES = ("control", "link", "crunch")
HOME_SITE = "home"
TICK_SECONDS = 2.0
# Workers find one another over the rows, so they need not chat over the broker.
WORKER_OPTIONS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")


def site_queue(name: str, site: str) -> Queue:
    """The queue of a site's workers: the plain one at home, `NAME.SITE` elsewhere. Raises ValueError for other names.

    Give it to `apply_async(queue=…)`: queues of sites are not declared beforehand, as sites are rows.
    """
    if name not in QUEUE_NAMES:
        raise ValueError(f"There is no queue “{name}”; there are {', '.join(QUEUE_NAMES)}.")
    full = name if site == HOME_SITE else f"{name}.{site}"
    return Queue(full, routing_key=full)  # type: ignore[no-untyped-call]


def queues_declare(names: Iterable[str], site: str) -> list[str]:
    """Make a site's queues known to this process, and return their full names. Raises ValueError."""
    queues = [site_queue(name, site) for name in names]
    known = {queue.name for queue in app.conf.task_queues}
    app.conf.task_queues = [*app.conf.task_queues, *(queue for queue in queues if queue.name not in known)]
    return [queue.name for queue in queues]


app = Celery("calculet")
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # a broker that restarts is waited for; the supervisor bounds the rest
    # A link holds its message for hours where it acknowledges late; a day keeps the broker from handing it out twice.
    broker_transport_options={"visibility_timeout": 86_400, "socket_timeout": 30.0},
    task_queues=[site_queue(name, HOME_SITE) for name in QUEUE_NAMES],
    task_default_queue="control",
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
    },
)
app.autodiscover_tasks()
