"""The web application that gunicorn serves."""

from __future__ import annotations

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "calculet.settings")

application = get_wsgi_application()

# What stays for the process's whole life is loaded now and left out of every garbage collection: looking through it
# again and again held answers up by 150 ms. What requests leave behind is collected as ever, less often.
get_resolver().url_patterns  # noqa: B018  (loads every page's module)
gc.collect()
gc.freeze()
gc.set_threshold(10_000, 10, 10)
