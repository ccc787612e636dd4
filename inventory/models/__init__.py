"""What is stored about the remote side: hosts, resources, tiers, scans and their entries."""

from inventory.models.digests import DigestRun, KnownDigest
from inventory.models.fields import RemoteNameField
from inventory.models.had import HadCover, HadFile, HadKind, HadSource, HadState
from inventory.models.hosts import Channel, DigestPolicy, Host, HostKey
from inventory.models.imports import ImportedList, ListState
from inventory.models.insides import InsideArchive, InsidePart, InsidePiece, InsideRun
from inventory.models.overlaps import DeclaredOverlap, Overlap, OverlapMeasure, OverlapSet
from inventory.models.resources import Resource, ResourceKind, SizeBasis
from inventory.models.scans import Entry, ListedBy, Scan, ScanChange, ScanState
from inventory.models.snapshots import Snapshot, SnapshotFile
from inventory.models.states import EntryState, EntryStates, StateSum
from inventory.models.tiers import PlanFileLoad, Proposal, ProposalState, Tier

__all__ = [
    "Channel",
    "DeclaredOverlap",
    "DigestPolicy",
    "DigestRun",
    "Entry",
    "EntryState",
    "EntryStates",
    "HadCover",
    "HadFile",
    "HadKind",
    "HadSource",
    "HadState",
    "Host",
    "HostKey",
    "ImportedList",
    "InsideArchive",
    "InsidePart",
    "InsidePiece",
    "InsideRun",
    "KnownDigest",
    "ListState",
    "ListedBy",
    "Overlap",
    "OverlapMeasure",
    "OverlapSet",
    "PlanFileLoad",
    "Proposal",
    "ProposalState",
    "RemoteNameField",
    "Resource",
    "ResourceKind",
    "Scan",
    "ScanChange",
    "ScanState",
    "SizeBasis",
    "Snapshot",
    "SnapshotFile",
    "StateSum",
    "Tier",
]
