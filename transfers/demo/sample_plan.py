"""The plan of the demonstration: what is on the sample host, what it is worth, and what goes into which pack."""

from __future__ import annotations

import os
from pathlib import Path

from inventory.manifests.planfile import CapabilityLine, PackLine, PlanFile, ResourceLine, TierLine, write_plan_file
from inventory.remote.names import RemoteName

_TIERS = (
    TierLine(1, "Needed to start analysis"),
    TierLine(2, "Rebuild the runtime"),
    TierLine(3, "User tests and forensics"),
    TierLine(4, "Model parameters", "last, but never dropped"),
)

# Name, path below the tree, kind, tier, value.
_RESOURCES = (
    ("sdk", "opt/sdk", "folder", 1, "headers, build configuration, shared libraries"),
    ("user-tests", "home/user2/llm", "folder", 1, "prompts, cases, results, start scripts"),
    ("baseline", "srv/archive/baseline-analysis.tar.gz", "archive", 1, "historic sources and the build's products"),
    ("repository", "srv/llm-runtime", "repository", 1, "whole git repository with its work tree"),
    ("runtime-image", "srv/parts", "parts", 2, "image of the runtime, split into parts of 8 MiB"),
    ("user-home", "home/user2", "folder", 3, "everything of the test account; its container store repeats the SDK"),
    ("model", "srv/model", "parameters", 4, "parameter block and its description"),
)

# Name, aim, mode, resources, exclude.
_PACKS = (
    ("00-critical-context", "analysis can start at once", "archive", ("sdk",), ()),
    ("01-user-tests", "test reproduction, file by file", "files", ("user-tests",), ()),
    ("02-baseline", "keeps the historic tuning path", "existing", ("baseline",), ()),
    ("03-repository", "source and version analysis", "archive", ("repository",), ()),
    ("04-runtime-image", "exact rebuild of the environment", "parts", ("runtime-image",), ()),
    ("05-user-home", "final completeness", "archive", ("user-home",), (".cache/", "/llm/")),
    ("06-model", "end-to-end runs and regression", "archive", ("model",), ()),
)

_CAPABILITIES = (
    ("Start the analysis", "the smallest working set", (("00-critical-context",), ("03-repository",))),
    ("Reproduce the tests", "", (("00-critical-context",), ("01-user-tests",))),
    ("Rebuild the runtime", "", (("02-baseline",), ("04-runtime-image",))),
    ("Run end to end", "with the model's parameters", (("04-runtime-image",), ("06-model",))),
)


def sample_plan(tree: Path) -> bytes:
    """The plan file for a sample tree that lies at `tree` on the host."""
    top = RemoteName(os.fsencode(tree))
    places: dict[int, int] = {}
    resources = []
    for name, below, kind, tier, value in _RESOURCES:
        places[tier] = places.get(tier, 0) + 1
        path = top.join(below.encode())
        resources.append(ResourceLine(name, path, kind, tier, places[tier], None, "unknown", value))
    return write_plan_file(
        PlanFile(
            tiers=_TIERS,
            resources=tuple(resources),
            packs=tuple(
                PackLine(name, aim, mode, members, exclude=exclude) for name, aim, mode, members, exclude in _PACKS
            ),
            capabilities=tuple(CapabilityLine(name, text, needs) for name, text, needs in _CAPABILITIES),
        )
    )
