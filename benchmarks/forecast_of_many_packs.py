"""How long a forecast of a thousand packs in a thousand futures takes, by what is left to do for the packs.

    python -m benchmarks.forecast_of_many_packs [PACKS [RUNS]]

Each case is measured five times; the least and the middle are told, of the processor's time and of the clock.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence

from transfers.forecast.futures import Paces
from transfers.forecast.goodput import Goodput
from transfers.forecast.simulate import RUNS, Job, simulate

REPEATS = 5


def cases(count: int) -> Mapping[str, Sequence[Job]]:
    """Packs that lie packed on the host; that are yet to be made; and every third one made, by a slow host."""
    draw = random.Random(2)
    return {
        "packed": [Job(str(at), draw.uniform(1e5, 1e8)) for at in range(count)],
        "not packed": [Job(str(at), 0, draw.uniform(1e5, 1e8), draw.uniform(1e5, 1e8)) for at in range(count)],
        "slow host": [Job(str(at), 1e6) if at % 3 else Job(str(at), 0, 1e6, 1e9) for at in range(count)],
    }


def main() -> None:
    """Measure and print."""
    count, runs = (int(text) for text in [*sys.argv[1:], "1000", str(RUNS)][:2])
    draw = random.Random(1)
    goodput = Goodput("measured", tuple(draw.uniform(3e4, 12e4) for _ in range(72)), (300.0,) * 72, 0.2, 12e4, 21_600)
    paces = Paces(goodput, (0.3, 0.5, 0.8), (2e6, 3e6), (1e8,))
    for name, jobs in cases(count).items():
        worked, waited = [], []
        for _repeat in range(REPEATS):
            clock, processor = time.perf_counter(), time.process_time()
            simulate(jobs, paces, needs={"work": [["1"], ["4", "5"]]}, runs=runs)
            worked.append(time.process_time() - processor)
            waited.append(time.perf_counter() - clock)
        print(
            f"{count} packs, {runs} futures, {name}: processor {min(worked):.2f} s (middle "
            f"{statistics.median(worked):.2f} s), clock {min(waited):.2f} s (middle {statistics.median(waited):.2f} s)"
        )


if __name__ == "__main__":
    main()
