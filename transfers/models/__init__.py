"""What is stored about plans, packs, links and evidence."""

from transfers.models.capabilities import Capability, CapabilityNeed
from transfers.models.checks import Check, Report
from transfers.models.forecasts import KeptForecast
from transfers.models.landings import Landing
from transfers.models.links import GoodputSample, LaneDecision, LinkStatus
from transfers.models.packs import Build, BuildState, Chunk, Compression, Pack, Unpack, UnpackState
from transfers.models.plans import Approval, Decision, EntryList, Item, Mode, Plan, Revision, RevisionState

__all__ = [
    "Approval",
    "Build",
    "BuildState",
    "Capability",
    "CapabilityNeed",
    "Check",
    "Chunk",
    "Compression",
    "Decision",
    "EntryList",
    "GoodputSample",
    "Item",
    "KeptForecast",
    "Landing",
    "LaneDecision",
    "LinkStatus",
    "Mode",
    "Pack",
    "Plan",
    "Report",
    "Revision",
    "RevisionState",
    "Unpack",
    "UnpackState",
]
