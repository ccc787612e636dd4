"""The tick: looks at the database and says what should run now. It starts nothing itself and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from calculet.audit.anchoring import anchors_due
from calculet.leases.services import lease_is_free
from inventory.services.digest_runs import digests_sweep
from inventory.services.had_covers import covers_sweep
from inventory.services.had_runs import had_sweep
from inventory.services.inside_runs import inside_sweep
from inventory.services.overlaps import overlaps_sweep
from inventory.services.scans import scans_sweep
from inventory.services.snapshot_offers import offers_sweep
from inventory.services.snapshots import snapshots_sweep
from transfers.models import BuildState
from transfers.selectors.adoptions import adoptions_due
from transfers.selectors.examinations import examinations_due
from transfers.selectors.samples import samples_waiting
from transfers.selectors.work import builds_in_state, builds_to_open, builds_to_pack, hosts_to_link, unpacks_to_run
from transfers.services.adoptions import adoption_lease_name
from transfers.services.builds import build_lease_name
from transfers.services.drifts import drifts_due
from transfers.services.entry_states import entry_states_sweep
from transfers.services.examinations import examination_lease_name
from transfers.services.insides_here import insides_here_due
from transfers.services.links import link_lease_name
from transfers.services.rechecks import rechecks_due
from transfers.services.samples import sample_lease_name
from transfers.services.unpacks import unpack_lease_name


@dataclass(frozen=True, slots=True)
class Due:
    """Ids of what should run now, in the order in which it should begin."""

    scans: tuple[int, ...]
    digests: tuple[int, ...]  # takings of digests at the source
    insides: tuple[int, ...]  # looks inside archives on their hosts
    insides_here: tuple[int, ...]  # opened builds whose archive nobody looked into
    had: tuple[int, ...]  # declarations of what is already here
    covers: tuple[int, ...]  # resources whose part that is already here has to be counted
    overlaps: tuple[int, ...]  # measurings of what lies twice
    snapshots: tuple[int, ...]  # of hosts' environments
    offers: tuple[int, ...]  # snapshots whose files are to be written on their hosts
    packs: tuple[int, ...]  # builds
    examinations: tuple[int, ...]  # of links
    adoptions: tuple[int, ...]  # of bytes that are here
    links: tuple[int, ...]  # hosts
    verifies: tuple[int, ...]
    opens: tuple[int, ...]
    rechecks: tuple[int, ...]  # builds to be read back once more
    unpacks: tuple[int, ...]
    reports: tuple[int, ...]
    samples: tuple[int, ...]  # of what lists come to when they are packed
    drifts: tuple[int, ...]  # items of plans that a later scan may have found otherwise
    anchors: tuple[int, ...]  # days whose head of the audit chain is to be anchored
    states: tuple[int, ...]  # listings whose entries' states rest on what is no longer so


def due_now() -> Due:
    """What nobody works on although it is due. A message that was lost is made good by the next tick."""
    unreported = builds_in_state(BuildState.OPENED).filter(reports__isnull=True)
    return Due(
        scans=tuple(scans_sweep()),
        digests=tuple(digests_sweep()),
        insides=tuple(inside_sweep()),
        insides_here=tuple(insides_here_due()),
        had=tuple(had_sweep()),
        covers=tuple(covers_sweep()),
        overlaps=tuple(overlaps_sweep()),
        snapshots=tuple(snapshots_sweep()),
        offers=tuple(offers_sweep()),
        packs=_free([build.pk for build in builds_to_pack()]),
        examinations=tuple(pk for pk in examinations_due() if lease_is_free(name=examination_lease_name(pk))),
        adoptions=tuple(pk for pk in adoptions_due() if lease_is_free(name=adoption_lease_name(pk))),
        links=tuple(host.pk for host in hosts_to_link() if lease_is_free(name=link_lease_name(host.pk))),
        verifies=_free(_ids(BuildState.RECEIVED)),
        rechecks=_free(rechecks_due()),
        opens=_free([build.pk for build in builds_to_open()]),
        unpacks=tuple(one.pk for one in unpacks_to_run() if lease_is_free(name=unpack_lease_name(one.pk))),
        reports=tuple(unreported.values_list("pk", flat=True)),
        samples=tuple(key for key in samples_waiting() if lease_is_free(name=sample_lease_name(key))),
        drifts=tuple(drifts_due()),
        anchors=tuple(anchors_due()),
        states=tuple(entry_states_sweep()),
    )


def _ids(state: BuildState) -> list[int]:
    return list(builds_in_state(state).values_list("pk", flat=True))


def _free(build_ids: list[int]) -> tuple[int, ...]:
    return tuple(key for key in build_ids if lease_is_free(name=build_lease_name(key)))
