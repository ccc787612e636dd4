"""`python -m transfers.oneoff USER@HOST:PATH --to DIR`, the same as `manage.py fetch`."""

from __future__ import annotations

import sys

from transfers.oneoff.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
