"""What is stored about plans, packs, links and evidence."""

from transfers.models.adoptions import ADOPTION_ACTIVE, Adoption, AdoptionState, AdoptionWay
from transfers.models.capabilities import Capability, CapabilityNeed
from transfers.models.checks import Check, Report
from transfers.models.drifts import ItemBasis, ItemDrift
from transfers.models.examinations import ExaminationState, LinkExamination
from transfers.models.forecasts import KeptForecast
from transfers.models.landings import Landing
from transfers.models.links import GoodputMinute, GoodputSample, LaneDecision, LinkStatus
from transfers.models.packs import Build, BuildState, Chunk, Compression, Pack, Unpack, UnpackState
from transfers.models.plans import Approval, Decision, EntryList, Item, Mode, Plan, Revision, RevisionState
from transfers.models.samples import PackingSample, SampleState
from transfers.models.steering import EVERYTHING, BandwidthLimit, LaneMinute, LaneSetting
from transfers.models.trials import Trial, TrialBlock, TrialEnd, TrialState

__all__ = [
    "ADOPTION_ACTIVE",
    "EVERYTHING",
    "Adoption",
    "AdoptionState",
    "AdoptionWay",
    "Approval",
    "BandwidthLimit",
    "Build",
    "BuildState",
    "Capability",
    "CapabilityNeed",
    "Check",
    "Chunk",
    "Compression",
    "Decision",
    "EntryList",
    "ExaminationState",
    "GoodputMinute",
    "GoodputSample",
    "Item",
    "ItemBasis",
    "ItemDrift",
    "KeptForecast",
    "Landing",
    "LaneDecision",
    "LaneMinute",
    "LaneSetting",
    "LinkExamination",
    "LinkStatus",
    "Mode",
    "Pack",
    "PackingSample",
    "Plan",
    "Report",
    "Revision",
    "RevisionState",
    "SampleState",
    "Trial",
    "TrialBlock",
    "TrialEnd",
    "TrialState",
    "Unpack",
    "UnpackState",
]
