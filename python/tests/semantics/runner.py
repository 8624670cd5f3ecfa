"""Runs a case on two sides, plain and captured, each on values of its own, and says how they differ."""

import contextlib
import dataclasses
import importlib
import io
import pkgutil
import random
import sys
import warnings

from . import cases, values
from .case import CASES, Call, globals_of
from .portrait import Painter, differences
from .values import torch

NEED_TORCH = "torch_"
SEEN = ("outcome", "value", "arguments", "function", "globals", "printed", "warned", "ambient")
MISSING = "a name that is not there"

if torch is not None:
    import numpy


def load():
    """All cases that this interpreter can run."""
    for module in pkgutil.iter_modules(cases.__path__):
        since = int(module.name[6:]) if module.name.startswith("since3") else 0
        if sys.version_info[1] >= since and (torch is not None or not module.name.startswith(NEED_TORCH)):
            importlib.import_module(f"{cases.__name__}.{module.name}")
    return CASES


@dataclasses.dataclass
class Quality:
    """How well it was captured: the pieces of the first call, whether the second was of its kind, what was said."""

    breaks: list | None = None
    retraced: bool = False
    said: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Side:
    """One run of a case: the steps as they looked, and what to report about the capture."""

    steps: list
    quality: Quality


def run_side(case, capture):
    values.restart()
    random.seed(0)
    with own_globals(case):
        function = case.make()
        captured = capture(function)
        painter, side = Painter(), Side([], Quality())
        for number, maker in enumerate(case.plan()):
            if maker is None:
                case.between(function)
                continue
            painter.begin()
            side.steps.append(step(case, function, captured, Call.of(maker()), painter, side.quality))
            observe(captured, number, side.quality)
    return side


@contextlib.contextmanager
def own_globals(case):
    names = case.state() if case.state else {}
    scope = globals_of(case)
    before = {name: scope.get(name, MISSING) for name in names}
    scope.update({name: value for name, value in names.items() if value is not MISSING})
    try:
        yield
    finally:
        for name, value in before.items():
            scope.pop(name, None)
            if value is not MISSING:
                scope[name] = value


def step(case, function, captured, call, painter, quality):
    """One call, and everything that can be seen of it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned, torch_mode(case):
        warnings.simplefilter("always")
        outcome, value = attempt(captured, call)
        ambient = torch_state()
    said = [str(warning.message) for warning in warned]
    quality.said += [text for text in said if text.startswith("oxytorch")]
    scope = globals_of(case)
    names = sorted(case.state()) if case.state else ()
    return (
        outcome,
        painter.paint(value),
        (*map(painter.paint, call.args), painter.paint(call.kwargs)),
        painter.paint(function),
        tuple((name, painter.paint(scope.get(name, MISSING))) for name in names),
        printed.getvalue(),
        tuple(text for text in said if not text.startswith("oxytorch")),
        (random.getstate()[1][-1], *ambient),
    )


def attempt(captured, call):
    try:
        return "returned", captured(*call.args, **call.kwargs)
    except BaseException as error:
        return "raised", error


@contextlib.contextmanager
def torch_mode(case):
    if torch is None:
        yield
        return
    torch.manual_seed(0)
    numpy.random.seed(0)
    with torch.set_grad_enabled(case.grad):
        yield


def torch_state():
    """Modes that a call may leave behind, and how far it drew from the generators."""
    if torch is None:
        return ()
    _, words, place, *_ = numpy.random.get_state()
    drawn = hash(torch.get_rng_state().numpy().tobytes()), hash(words.tobytes()), place
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), str(torch.get_default_dtype()), drawn


def observe(captured, number, quality):
    """After the first call its breaks count, after the second whether it was served by the first's trace."""
    stats = captured.stats() if hasattr(captured, "stats") else None
    if stats and number == 0:
        quality.breaks = [list(pair) for pair in stats["breaks"]]
    if stats and number == 1:
        quality.retraced = stats["traced"] > 1


def compare(case, capture):
    """The lines of difference of the first step that differs, and the quality of the capture."""
    want, got = run_side(case, lambda function: function), run_side(case, capture)
    for number, (mine, plain) in enumerate(zip(got.steps, want.steps), 1):
        lines = [line for label, *pair in zip(SEEN, mine, plain) for line in differences(*pair, case.close, f"call {number}, {label}")]
        if lines:
            return lines, got.quality
    return [], got.quality


def complaints(case, quality):
    """How the capture is worse than the case says it should be."""
    if quality.breaks is None or case.eager:
        return []
    # A function that changes what it reads is traced in every call, and oxytorch says so.
    found = [text for text in quality.said if case.again or "is traced again and again" not in text]
    pieces = len(quality.breaks) + 1
    if pieces > case.graphs:
        reasons = "; ".join(f"{reason} at {place.rpartition('/')[2]}" for place, reason in quality.breaks)
        found.append(f"{pieces} graphs instead of {case.graphs}: {reasons}")
    if quality.retraced and case.again:
        found.append("the second call was traced again")
    return found
