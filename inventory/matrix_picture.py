"""The matrix of overlaps as a picture: how much of each row lies in each column. The list of pairs says the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CELL, GAP = 44.0, 2.0
LABELS_WIDTH, LABELS_HEIGHT, MARGIN = 190.0, 150.0, 130.0
LABEL_LETTERS = 24


@dataclass(frozen=True, slots=True)
class Label:
    """A resource's name beside its row or above its column; the text begins (columns) or ends (rows) there."""

    x: float
    y: float
    words: str
    resource: int
    whole: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Of the row's resource, this percentage lies in the column's. `shade` is how strong the colour is, 0 to 1."""

    x: float
    y: float
    percent: int
    row: str
    column: str

    @property
    def shade(self) -> float:
        return 0.12 + 0.78 * self.percent / 100

    @property
    def middle(self) -> float:
        return self.x + (CELL - GAP) / 2

    @property
    def baseline(self) -> float:
        return self.y + CELL / 2 + 4


@dataclass(frozen=True, slots=True)
class MatrixPicture:
    """Everything that is drawn, in user units."""

    width: float
    height: float
    size: float
    rows: list[Label]
    columns: list[Label]
    cells: list[Cell]
    empty: list[tuple[float, float]]  # on the diagonal, and where nothing is shared


def matrix_picture(names: Sequence[tuple[int, str]], percents: Sequence[Sequence[int | None]]) -> MatrixPicture:
    """Draw a square matrix: `names` are resources with their keys, `percents` row by row."""
    rows, columns, cells, empty = [], [], [], []
    for number, (key, name) in enumerate(names):
        words = name if len(name) <= LABEL_LETTERS else name[: LABEL_LETTERS - 1] + "…"
        at = number * CELL
        rows.append(Label(LABELS_WIDTH - 8, LABELS_HEIGHT + at + CELL / 2 + 4, words, key, name))
        columns.append(Label(LABELS_WIDTH + at + CELL / 2, LABELS_HEIGHT - 8, words, key, name))
        for place, percent in enumerate(percents[number]):
            x, y = LABELS_WIDTH + place * CELL, LABELS_HEIGHT + at
            if percent is None:
                empty.append((x, y))
            else:
                cells.append(Cell(x, y, percent, name, names[place][1]))
    side = len(names) * CELL
    return MatrixPicture(
        LABELS_WIDTH + side + MARGIN, LABELS_HEIGHT + side + GAP, CELL - GAP, rows, columns, cells, empty
    )
