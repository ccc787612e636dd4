#!/usr/bin/env python3
"""Run a management command of Calculet Transfers."""

from __future__ import annotations

import os
import runpy
import sys

from calculet.environment import EnvironmentWrong

if __name__ == "__main__" and sys.argv[1:2] == ["fetch"]:
    # Needs no Django, and loading it would take longer than all round trips before the first byte.
    del sys.argv[1]
    runpy.run_module("transfers.oneoff", run_name="__main__")
elif __name__ == "__main__":
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "calculet.settings")
    try:
        execute_from_command_line(sys.argv)
    except (EnvironmentWrong, ImproperlyConfigured) as error:
        sys.exit(str(error))
