#!/usr/bin/env python3
"""Run a management command of Calculet Transfers."""

from __future__ import annotations

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

from calculet.environment import EnvironmentWrong

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "calculet.settings")
    try:
        execute_from_command_line(sys.argv)
    except (EnvironmentWrong, ImproperlyConfigured) as error:
        sys.exit(str(error))
