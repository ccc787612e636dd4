"""The product's settings, in a data folder of this test process.

Child processes of a test (workers, commands) inherit the environment and so share the folder and the database file.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Set by the first process of a test run; xdist's workers and their children inherit it.
if "TESTS_DATA_ROOT" not in os.environ:
    os.environ["TESTS_DATA_ROOT"] = tempfile.mkdtemp(prefix="calculet-tests-")
ROOT = Path(os.environ["TESTS_DATA_ROOT"])
os.environ["CALCULET_DATA_DIR"] = str(ROOT / os.environ.get("PYTEST_XDIST_WORKER", "main"))

from calculet.settings import *  # noqa: E402, F403
from calculet.settings import DATA_DIR, DATABASES  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the slow ones take most of a test's time

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, not memory: WAL, locks and other processes behave as in the product. Only the syncs are left out.
    DATABASES["default"]["NAME"] = str(DATA_DIR / "calculet.sqlite3")
    DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}
    DATABASES["default"]["OPTIONS"]["init_command"] = DATABASES["default"]["OPTIONS"]["init_command"].replace(
        "synchronous=FULL", "synchronous=OFF"
    )
