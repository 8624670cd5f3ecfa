"""`make sweep`: one compile, many sizes. Models are called with sizes in random order, and compared with eager at each.

    python benches/sweeps.py [--only NAME,...] [--small] [--seed N]

For each sweep: how many calls, how often the function was traced (at most twice is the goal: for the first sizes, then for any), the sizes at
which a result is not eager's, why it was traced again, and the most memory that a call of the largest size takes, beside eager's.
Exits with 1 if a result is wrong or a sweep takes more than two traces. `--small` is what the tests run: fewer and smaller sizes.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import random
import sys
import time
import warnings
from typing import Any, Callable

import torch
from torch import nn

import oxytorch
from measure import allocated_mb, arena_mb
from models_check import capture_of, difference
from sweeps_table import SWEEPS, Sweep

GOAL = 2


@dataclasses.dataclass
class Outcome:
    """What a sweep came to."""

    calls: int = 0
    compiles: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)
    recompiles: list[str] = dataclasses.field(default_factory=list)
    breaks: list[Any] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    call_mb: float = 0.0
    eager_mb: float = 0.0

    def is_fine(self) -> bool:
        return not self.wrong and not self.breaks and not self.warnings and self.compiles <= GOAL

    def __str__(self) -> str:
        counts = f"{self.calls} calls, {self.compiles} compiles, {len(self.wrong)} wrong, {self.seconds:.0f} s"
        memory = f", {self.call_mb:.3f} MB (eager {self.eager_mb:.3f})" if self.eager_mb else ""
        notes = [f"wrong: {text}" for text in self.wrong] + [f"traced again: {text}" for text in self.recompiles]
        notes += [f"break: {where}: {why}" for where, why in self.breaks] + self.warnings
        return "\n      ".join([counts + memory] + [note.replace("\n", " ")[:400] for note in notes])


def run(sweep: Sweep, seed: int = 0, small: bool = False, memory: bool = False, dynamic: bool | None = None) -> Outcome:
    torch.manual_seed(seed)
    model = sweep.build(small)
    compiled = oxytorch.compile(copy.deepcopy(model), dynamic=dynamic)
    cases = sweep.cases(random.Random(seed), small)
    outcome = Outcome(calls=len(cases))
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for case in cases:
            outcome.wrong += wrongs(sweep, model, compiled, case)
        outcome.warnings = sorted({str(w.message) for w in caught if "oxytorch" in str(w.message)})
    outcome.seconds = time.perf_counter() - began
    captured = capture_of(compiled)
    outcome.compiles, outcome.breaks = captured.stats()["traced"], captured.stats()["breaks"]
    outcome.recompiles = captured.report()["recompiles"]
    if memory and sweep.largest:
        # What the first call of this size makes and keeps would count twice.
        sweep.call(compiled, sweep.make(sweep.largest(small), "compiled"))
        # What is given to a call is there before.
        given = {side: sweep.make(sweep.largest(small), side) for side in ("eager", "compiled")}
        outcome.eager_mb = allocated_mb(lambda: sweep.call(model, given.pop("eager")))
        outcome.call_mb = allocated_mb(lambda: sweep.call(compiled, given.pop("compiled"))) + arena_mb("oxytorch")
    return outcome


def wrongs(sweep: Sweep, model: nn.Module, compiled: Callable[..., Any], case: Any) -> list[str]:
    """What is not as in eager at these sizes."""
    before = copy.deepcopy(model) if sweep.repeats else model
    want = sweep.call(model, sweep.make(case, "eager"))
    try:
        got = sweep.call(compiled, sweep.make(case, "compiled"))
    except Exception as error:
        return [f"{case}: {type(error).__name__}: {error}"]
    again = sweep.call if sweep.repeats else None
    found = difference(got, want, before, sweep.make(case, "exact") if again else None, again)
    return [] if found is None else [f"{case}: {found}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SWEEPS), help="names, with commas between")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    fine = True
    for name in given.only:
        oxytorch.reset()
        outcome = run(SWEEPS[name], given.seed, given.small, memory=True)
        fine &= outcome.is_fine()
        print(f"{'ok  ' if outcome.is_fine() else 'FAIL'} {name}: {outcome}", flush=True)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
