"""The main job on the sample host, by the same services that pages call; workers do what takes long.

Each step looks at what is there first, so that a second run carries on. What a person decides is done in the name of
two people who are made for the demonstration, since nobody approves what they proposed themselves.
"""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.db.models import Model, QuerySet

from calculet.lifecycle import Actor
from calculet.people.commands import machine_actor
from calculet.people.models import Person
from calculet.people.roles import Role
from calculet.people.services import password_link_make, password_set_by_link, person_create, role_give
from inventory.models import Host, Resource, Scan, ScanState
from inventory.services.hosts import host_add, host_change, host_key_look, host_pin_key, host_probe_run
from inventory.services.scans import scan_request
from transfers.demo.progress import Progress
from transfers.demo.sample_plan import sample_plan
from transfers.demo.ssh_host import HostFolder, fingerprint_of
from transfers.models import Build, BuildState, Revision, RevisionState, Unpack, UnpackState
from transfers.selectors.specs import build_folder
from transfers.selectors.work import builds_in_force
from transfers.services.plan_files import plan_file_load
from transfers.services.plans import revision_approve, revision_propose
from transfers.services.unpacks import unpack_request

HOST_NAME = "sample"
KEY_NAME = "demo"
PLANNER, APPROVER = "planner", "approver"
_ROLES = {
    PLANNER: (Role.PLANNER, Role.OPERATOR),
    APPROVER: (Role.APPROVER, Role.AUDITOR, Role.ADMIN),
}
Row = TypeVar("Row", bound=Model)
LOOK_SECONDS = 0.5
GIVE_UP_SECONDS = 1800.0


class DemoFailed(Exception):
    """A step of the demonstration did not come to its end. `str()` is the sentence."""


class DemoStopped(Exception):
    """Somebody pressed Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the demonstration keeps its sample host, and where that host listens."""

    folder: Path
    username: str
    port: int

    @property
    def host(self) -> HostFolder:
        return HostFolder(self.folder / "host")

    @property
    def tree(self) -> Path:
        return self.folder / "host" / "tree"


def people_ready() -> dict[str, str]:
    """Make the two people where they are missing, and give each a fresh password for this run: name → password."""
    machine, passwords = machine_actor(), {}
    for name, roles in _ROLES.items():
        person = Person.objects.filter(username=name).first()
        if person is None:
            person = person_create(actor=machine, username=name, roles=roles)
        for role in roles:
            role_give(actor=machine, person=person, role=role)
        passwords[name] = secrets.token_urlsafe(12)
        password_set_by_link(
            token=password_link_make(actor=machine, person=person), password=passwords[name], origin=machine.origin
        )
    return passwords


class MainJob:
    """The steps, in order. `stop` is asked between looks; it ends the job by DemoStopped."""

    def __init__(self, place: Place, progress: Progress, stop: Callable[[], bool]) -> None:
        self._place, self._progress, self._stop = place, progress, stop
        self._planner = _actor(PLANNER)
        self._approver = _actor(APPROVER)

    def run(self) -> list[Build]:
        """Do whatever is left of the main job; returns the builds. Raises DemoFailed, DemoStopped, RemoteError."""
        host = self._host()
        self._probe(host)
        self._plan(host)
        self._scan(host)
        self._approve(host)
        builds = self._fetch(host)
        self._unpack(builds)
        self._check(builds)
        return builds

    def _host(self) -> Host:
        place = self._place
        host = Host.objects.filter(name=HOST_NAME).first()
        if host is None:
            host = host_add(
                name=HOST_NAME,
                address="127.0.0.1",
                port=place.port,
                username=place.username,
                key_name=KEY_NAME,
                staging_path=str(place.folder / "host" / "staging"),
                actor=self._planner,
                note="The demonstration's host: a real SSH server on this machine, slowed down.",
            )
        host_change(host=host, actor=self._planner, port=place.port)
        found = host_key_look(host=host, actor=self._planner)
        own = fingerprint_of(place.host)
        if found.fingerprint != own:
            raise DemoFailed(
                f"Port {place.port} shows the host key {found.fingerprint}, and the sample host's own is {own}. "
                "Nothing was pinned: something else listens there."
            )
        host_pin_key(
            host=host,
            key_type=found.key_type,
            blob=found.blob,
            fingerprint=found.fingerprint,
            actor=self._planner,
        )
        self._progress.done(f"Host {host} at port {place.port}, key {found.fingerprint} compared and pinned")
        return host

    def _probe(self, host: Host) -> None:
        host_probe_run(host.pk)
        host.refresh_from_db()
        if host.problem:
            raise DemoFailed(host.problem)
        self._progress.done(f"Probed: {host.probe['system'] if host.probe else 'unknown'}")

    def _plan(self, host: Host) -> None:
        content = sample_plan(self._place.tree)
        path = self._place.folder / "plan.yaml"
        path.write_bytes(content)
        result = plan_file_load(host=host, content=content, file_name=path.name, actor=self._planner)
        self._progress.done(
            f"Plan file loaded: {result.inventory.created} resources made, {result.packs_set} packs drafted"
        )

    def _scan(self, host: Host) -> None:
        for resource in host.resources.all():
            if not resource.scans.exclude(state__in=[ScanState.FAILED, ScanState.CANCELLED]).exists():
                scan_request(resource=resource, actor=self._planner)
        for resource in self._until(host.resources.all(), _is_scanned):
            scan = resource.scans.filter(state=ScanState.FINISHED).first()
            if scan is None:
                raise DemoFailed(f"The scan of {resource.name} failed: {_last_scan(resource).problem}")
        total = sum(_last_scan(resource).files for resource in host.resources.all())
        self._progress.done(f"Scanned: {total:,} files in {host.resources.count()} resources")

    def _approve(self, host: Host) -> None:
        waiting = Revision.objects.filter(plan__host=host, state__in=[RevisionState.DRAFT, RevisionState.PROPOSED])
        for revision in waiting.order_by("number"):
            if revision.state == RevisionState.DRAFT:
                revision_propose(revision=revision, actor=self._planner, note="The demonstration's plan")
            revision_approve(revision=revision, digest=revision.digest, actor=self._approver, note="Looks right")
        approved = Revision.objects.get(plan__host=host, state=RevisionState.APPROVED)
        self._progress.done(f"Plan revision {approved.number} approved, digest {approved.digest[:16]}…")

    def _fetch(self, host: Host) -> list[Build]:
        def builds() -> list[Build]:
            return list(builds_in_force().filter(pack__plan__host=host))

        deadline = time.monotonic() + GIVE_UP_SECONDS
        while True:
            now = builds()
            self._progress.show(now)
            bad = [one for one in now if one.state in (BuildState.FAILED, BuildState.NEEDS_DECISION)]
            if bad:
                raise DemoFailed(f"{bad[0].pack} {bad[0].get_state_display()}: {bad[0].problem}")
            if all(one.state == BuildState.OPENED and one.reports.exists() for one in now):
                self._progress.done("Every pack is fetched, verified, opened and reported")
                return now
            self._pause(deadline)

    def _unpack(self, builds: list[Build]) -> None:
        for build in builds:
            if not build.unpacks.exclude(state=UnpackState.FAILED).exists():
                unpack_request(build=build, actor=self._planner)
        asked = Unpack.objects.filter(build__in=builds)
        for unpack in self._until(asked, lambda one: one.state in (UnpackState.FINISHED, UnpackState.FAILED)):
            if unpack.state == UnpackState.FAILED:
                raise DemoFailed(f"{unpack.build.pack} was not unpacked: {unpack.problem}")
        self._progress.done("Every pack is unpacked, and its members were checked again")

    def _check(self, builds: list[Build]) -> None:
        """A stranger's check, by coreutils."""
        for build in builds:
            command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
            done = subprocess.run(command, cwd=build_folder(build), capture_output=True, text=True, errors="replace")
            if done.returncode != 0:
                raise DemoFailed(f"sha256sum -c failed in {build_folder(build)}: {done.stdout}{done.stderr}")
        self._progress.done("sha256sum -c SHA256SUMS passes in every landing")

    def _until(self, rows: QuerySet[Row], is_over: Callable[[Row], bool]) -> list[Row]:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while True:
            now = list(rows.all())
            if all(is_over(row) for row in now):
                return now
            self._pause(deadline)

    def _pause(self, deadline: float) -> None:
        if self._stop():
            raise DemoStopped
        if time.monotonic() > deadline:
            raise DemoFailed(
                f"This took longer than {GIVE_UP_SECONDS / 60:.0f} minutes. What came is kept; the logs lie in "
                f"“{settings.DATA_DIR / 'log'}”."
            )
        time.sleep(LOOK_SECONDS)


def _actor(username: str) -> Actor:
    return Actor.of(Person.objects.get(username=username), origin="demonstration")


def _last_scan(resource: Resource) -> Scan:
    return resource.scans.order_by("-requested_at")[0]


def _is_scanned(resource: Resource) -> bool:
    return _last_scan(resource).state not in (ScanState.QUEUED, ScanState.RUNNING)
