"""A treemap: rectangles whose areas are as sizes are, close to squares (Bruls, Huizing and van Wijk, 2000)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """Where one thing lies: left upper corner and extent."""

    x: float
    y: float
    width: float
    height: float


def treemap(sizes: Sequence[float], width: float, height: float) -> list[Box]:
    """A box for each size, in the order given, which should be from large to small. Sizes are above 0."""
    total = float(sum(sizes))
    if total <= 0 or width <= 0 or height <= 0:
        return []
    areas = [size * width * height / total for size in sizes]
    boxes: list[Box] = []
    free = Box(0.0, 0.0, width, height)
    row: list[float] = []
    for area in areas:
        side = min(free.width, free.height)
        if row and _worst([*row, area], side) > _worst(row, side):
            free = _lay(row, free, boxes)
            row = []
        row.append(area)
    _lay(row, free, boxes)
    return boxes


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of a box's sides when a row lies along a side."""
    total = sum(row)
    if not side or not total:
        return float("inf")
    return max(side * side * max(row) / (total * total), total * total / (side * side * min(row)))


def _lay(row: Sequence[float], free: Box, boxes: list[Box]) -> Box:
    """Put a row along the shorter side; returns what stays free."""
    total = sum(row)
    if free.width >= free.height:
        depth = min(total / free.height, free.width) if free.height else 0.0  # rounding must not lead outside
        at = free.y
        for area in row:
            extent = (
                free.height * area / total if total else 0.0
            )  # of the side: divided by the depth, errors would grow
            boxes.append(Box(free.x, at, depth, extent))
            at += extent
        return Box(free.x + depth, free.y, max(free.width - depth, 0.0), free.height)
    depth = min(total / free.width, free.height) if free.width else 0.0
    at = free.x
    for area in row:
        extent = free.width * area / total if total else 0.0
        boxes.append(Box(at, free.y, extent, depth))
        at += extent
    return Box(free.x, free.y + depth, free.width, max(free.height - depth, 0.0))
