"""One model of `make models`, in a process of its own: what oxytorch makes of it against eager, and TorchDynamo's graphs."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pathlib
import sys
import time
import warnings
from typing import Any, Callable

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python/tests"))
import compare

Report = Callable[..., None]


def check_oxytorch(entry, report: Report) -> None:
    """The model under `oxytorch.compile` against eager: two calls with the same inputs, then one with other values.

    `report` keeps what is known at once: the process may die of the next step.
    """
    import oxytorch

    model, inputs = entry.build()
    expected = [call(model, inputs(seed)) for seed in (1, 2)]
    compiled = entry.compile(copy.deepcopy(model), oxytorch.compile)
    with torch.no_grad():
        oxytorch.compile(torch.neg)(torch.ones(2))
    report(stage="first call")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step, seed in (("first", 1), ("second", 1), ("changed", 2)):
            began = time.perf_counter()
            actual = call(compiled, inputs(seed))
            report(**{f"{step}_s": time.perf_counter() - began, "stage": f"after the {step} call"})
            if step == "first":
                report(**captured(compiled))
            report(**{step: difference(actual, expected[seed - 1], model, inputs(seed))})
        report(fallbacks=sorted({str(w.message) for w in caught if "oxytorch" in str(w.message)}))
    report(traced=capture_of(compiled).stats()["traced"], stage="done")


def capture_of(compiled):
    """What was captured: the module, or the forward of the model inside it."""
    return compiled._oxytorch.call if hasattr(compiled, "_oxytorch") else compiled.model.forward


def captured(compiled) -> dict[str, Any]:
    """Graphs and breaks of the first call, how often it was traced, and what that took of the processor."""
    captured = capture_of(compiled)
    stats = captured.stats()
    graphs = captured.show().count("run a graph on (")
    trace = captured.report()["thread_seconds"]["trace"]
    return dict(graphs=graphs, breaks=stats["breaks"], ops=stats["ops"], traced_first=stats["traced"], trace_s=trace)


def check_dynamo(entry, report: Report) -> None:
    """How many graphs TorchDynamo takes, and how many seconds of the processor; they run as they are."""
    import torch._dynamo

    graphs = []

    def backend(gm, example_inputs):
        graphs.append(len(gm.graph.nodes))
        return gm.forward

    model, inputs = entry.build()
    with torch.no_grad():
        torch.compile(torch.neg, backend=backend)(torch.ones(2))
    graphs.clear()
    torch._dynamo.utils.counters.clear()
    compiled = entry.compile(model, functools.partial(torch.compile, backend=backend))
    report(stage="first call")
    for step in ("first", "second"):
        began = time.process_time()
        call(compiled, inputs(1))
        report(**{f"{step}_s": time.process_time() - began})
        if step == "first":
            reasons = torch._dynamo.utils.counters["graph_break"]
            report(graphs=len(graphs), breaks=[[reason, count] for reason, count in reasons.items()])
    report(stage="done")


def call(model, inputs):
    args, kwargs = inputs
    with torch.no_grad():
        return model(*args, **kwargs)


class Wide(torch.overrides.TorchFunctionMode):
    """A model that asks for float32 by name gets float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        widen = lambda value: torch.float64 if value is torch.float32 else value
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        kwargs = {name: widen(value) for name, value in (kwargs or {}).items()}
        return function(*map(widen, args), **kwargs)


def difference(actual, expected, model, inputs, call=call) -> str | None:
    """None, or how a result differs from eager's by the rule of the tests.

    A model that cannot run in float64, or may not be called again (`call` is None), has the tolerance alone.
    """

    def exact():
        wide = copy.deepcopy(model).double()
        # What the model makes on the way is wide too.
        torch.set_default_dtype(torch.float64)
        try:
            with Wide():
                return plain(call(wide, compare.to_double(inputs)))
        finally:
            torch.set_default_dtype(torch.float32)

    for reference in (exact, None) if call else (None,):
        try:
            return compare.assert_same(plain(actual), plain(expected), reference)
        except AssertionError as error:
            return str(error)
        except RuntimeError as error:
            print("no float64 reference:", error)


def plain(value: Any) -> Any:
    """A result as lists, tensors and scalars, with the classes of what held them.

    Objects that compare by identity, such as caches, are taken by their attributes.
    """
    if value is None or isinstance(value, (torch.Tensor, str, int, float, torch.dtype, torch.device)):
        return value
    if isinstance(value, dict):
        return [type(value).__name__, list(value), [plain(item) for item in value.values()]]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [plain(item) for item in value]]
    if dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        return [type(value).__name__, plain({name: item for name, item in vars(value).items() if not callable(item)})]
    return repr(value)
