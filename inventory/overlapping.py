"""What the page of overlaps shows: pairs of resources with what they share, both ways, and which one to keep."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from inventory.matrix_picture import MatrixPicture, matrix_picture
from inventory.models import DeclaredOverlap, Overlap, OverlapMeasure, OverlapSet, Resource
from inventory.selectors import listing_of

PAIRS_SHOWN = 200
MATRIX_RESOURCES = 24
DIFFERS_PERCENT = 5


@dataclass(frozen=True, slots=True)
class Side:
    """One resource of a pair: how much of it lies in the other."""

    resource: Resource
    files: int
    size_bytes: int
    maybe_files: int
    maybe_bytes: int
    total_bytes: int

    @property
    def percent(self) -> int:
        """Of its bytes that lie in the other, by digest; rounded down, so that 100 is all."""
        return self.size_bytes * 100 // self.total_bytes if self.total_bytes else 0

    @property
    def left_bytes(self) -> int:
        """What would still have to be fetched of it when the other is at home."""
        return self.total_bytes - self.size_bytes


@dataclass(frozen=True, slots=True)
class Pair:
    """Two resources that share bytes. `keep` is the one whose fetching brings most of both; None when nested."""

    one: Side
    other: Side
    is_nested: bool

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.one, self.other

    @property
    def shared_bytes(self) -> int:
        return max(self.one.size_bytes, self.other.size_bytes)

    @property
    def keep(self) -> Side | None:
        """The side to fetch whole: the one that holds more of the other, then the better tier, then fewer bytes."""
        if self.is_nested or not self.shared_bytes:
            return None
        return min((self.one, self.other), key=self._order)

    def _order(self, side: Side) -> tuple[int, int, int]:
        rest = self.rest_of(side)
        return -rest.percent, _rank(side.resource), rest.left_bytes

    @property
    def reason(self) -> str:
        """Why that side is the one to keep, in a sentence; empty when none is."""
        keep, rest = self.keep, self.rest
        if keep is None or rest is None:
            return ""
        names = {"keep": keep.resource.name, "rest": rest.resource.name, "percent": rest.percent}
        names["back"] = keep.percent
        if rest.percent != keep.percent:
            sentence = _(
                "%(keep)s is the more complete: it holds %(percent)s %% of %(rest)s, which holds %(back)s %% of it."
            )
        elif _rank(keep.resource) != _rank(rest.resource):
            sentence = _("Each holds %(percent)s %% of the other, and %(keep)s is of the better tier.")
        elif keep.left_bytes != rest.left_bytes:
            sentence = _("Each holds %(percent)s %% of the other, and less is left to fetch when %(keep)s is here.")
        else:
            sentence = _("Each holds %(percent)s %% of the other: either will do.")
        return sentence % names

    def rest_of(self, side: Side) -> Side:
        """The other side."""
        return self.other if side is self.one else self.one

    @property
    def rest(self) -> Side | None:
        """The side of which only a rest has to be fetched."""
        keep = self.keep
        return None if keep is None else self.rest_of(keep)


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A resource and, for each column, the percentage of it that lies there (None on the diagonal and without any)."""

    resource: Resource
    cells: list[int | None]


@dataclass(frozen=True, slots=True)
class OverlapsShown:
    """The newest finished measuring; `is_stale` when a resource was listed anew since."""

    measure: OverlapMeasure
    sets: list[OverlapSet]
    pairs: list[Pair]
    matrix: list[MatrixRow]
    is_stale: bool

    @property
    def columns(self) -> list[Resource]:
        return [row.resource for row in self.matrix]

    @property
    def picture(self) -> MatrixPicture:
        """The matrix as it is drawn."""
        names = [(resource.pk, resource.name) for resource in self.columns]
        return matrix_picture(names, [row.cells for row in self.matrix])


def measure_waiting() -> OverlapMeasure | None:
    """The measuring that was asked for and is not done; also the last one when it failed."""
    newest = OverlapMeasure.objects.order_by("-requested_at", "-pk").first()
    return newest if newest is not None and newest.finished_at is None else None


def overlaps_shown() -> OverlapsShown | None:
    """The newest finished measuring; None before the first."""
    done = OverlapMeasure.objects.filter(finished_at__isnull=False).order_by("-requested_at", "-pk").first()
    if done is None:
        return None
    sets = list(done.sets.select_related("resource__host", "resource__tier").order_by("-size_bytes", "pk"))
    totals = {one.resource_id: one for one in sets}
    found = list(done.overlaps.filter(resource__in=totals, other__in=totals))
    sides = {(row.resource_id, row.other_id): row for row in found}
    pairs = [_pair(totals[one], totals[other], sides) for one, other in {tuple(sorted(key)) for key in sides}]
    pairs.sort(key=lambda pair: (pair.is_nested, -pair.shared_bytes, -pair.one.maybe_bytes, pair.one.resource.pk))
    now = {one.resource_id: listing_of(one.resource) for one in sets}
    is_stale = any(scan is None or scan.pk != totals[key].scan_id for key, scan in now.items())
    return OverlapsShown(done, sets, pairs[:PAIRS_SHOWN], _matrix(sets, sides), is_stale)


@dataclass(frozen=True, slots=True)
class Declared:
    """What somebody said of two resources, beside what was measured (None when it was not)."""

    row: DeclaredOverlap
    measured: Side | None

    @property
    def differs(self) -> bool:
        """True when what was measured is more than a few per cent away from what was said."""
        return self.measured is not None and abs(self.measured.percent - self.row.percent) > DIFFERS_PERCENT


def declared_overlaps() -> list[Declared]:
    """Everything that was declared, with the newest measuring beside it."""
    done = OverlapMeasure.objects.filter(finished_at__isnull=False).order_by("-requested_at", "-pk").first()
    totals = {} if done is None else {one.resource_id: one for one in done.sets.select_related("resource")}
    found = {} if done is None else {(row.resource_id, row.other_id): row for row in done.overlaps.all()}
    rows = DeclaredOverlap.objects.select_related("resource__host", "other__host", "declared_by")
    shown = []
    for row in rows.order_by("resource__name", "other__name", "pk"):
        is_measured = row.resource_id in totals and row.other_id in totals
        # Without digests nothing was measured, however the listings were compared.
        is_measured = is_measured and all(totals[key].digested_bytes for key in (row.resource_id, row.other_id))
        side = _side(totals[row.resource_id], found.get((row.resource_id, row.other_id))) if is_measured else None
        shown.append(Declared(row, side))
    return shown


def _pair(one: OverlapSet, other: OverlapSet, sides: dict[tuple[int, int], Overlap]) -> Pair:
    forth, back = sides.get((one.resource_id, other.resource_id)), sides.get((other.resource_id, one.resource_id))
    return Pair(_side(one, forth), _side(other, back), any(row is not None and row.is_nested for row in (forth, back)))


def _side(whole: OverlapSet, row: Overlap | None) -> Side:
    if row is None:
        return Side(whole.resource, 0, 0, 0, 0, whole.size_bytes)
    return Side(whole.resource, row.files, row.size_bytes, row.maybe_files, row.maybe_bytes, whole.size_bytes)


def _matrix(sets: list[OverlapSet], sides: dict[tuple[int, int], Overlap]) -> list[MatrixRow]:
    """Resources that share something, the largest first."""
    sharing = {key for pair, row in sides.items() if row.size_bytes for key in pair}
    shown = [one for one in sets if one.resource_id in sharing][:MATRIX_RESOURCES]
    rows = []
    for one in shown:
        cells = [sides.get((one.resource_id, other.resource_id)) for other in shown]
        percents = [None if row is None else _side(one, row).percent for row in cells]
        rows.append(MatrixRow(one.resource, percents))
    return rows


def _rank(resource: Resource) -> int:
    return 10**6 if resource.tier is None else resource.tier.position
