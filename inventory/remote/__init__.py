"""The only place that knows paramiko."""

from __future__ import annotations

import sys

# paramiko loads `invoke`, with a YAML reader and a mock library behind it, for one word of ssh_config files that
# nothing here reads, and goes without when it is not there. The one-off command would load a third more for it.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]
