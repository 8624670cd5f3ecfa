"""`oxytorch.explain`: what capture makes of a function, for people and programs."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch.nn as nn

from oxytorch._module import has_calls, original_module
from oxytorch._oxytorch import Captured, last_compile


@dataclasses.dataclass(frozen=True)
class Break:
    """A place where a graph ends before the function does."""

    reason: str
    explanation: str
    """What that means."""
    hint: str
    """What can be done about it."""
    stack: list[str]
    """The user's lines, outermost first."""

    def __str__(self) -> str:
        stack = "\n".join(f"       {line}" for line in self.stack)
        return f"{self.reason}: {self.explanation}\n     to do: {self.hint}\n{stack}"


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What was traced. ``print`` it, or look at its parts."""

    graphs: list[Any]
    """The compiled graphs, in the order in which they were traced."""
    ops: int
    """Torch operations that were recorded."""
    breaks: list[Break]
    guards: list[str]
    """What a later call must fulfil to use these graphs."""
    recompiles: list[str]
    """For each time that the function was traced again: what had changed."""
    left_to_python: list[str]
    """Why parts of the function run as they are."""
    seconds: dict[str, float]
    """By stage: tracing, the stages of the compiler, the first run."""
    result: Any
    """What the function returned."""
    reads: list[str] = dataclasses.field(default_factory=list)
    """Where values of tensors are asked for, between two graphs: what they decide is a variable behind, so that is no break."""
    cuda_graphs: str | None = None
    """What becomes of the last graph in a mode that records graphs on a GPU: why not, where it cannot be recorded."""

    def __str__(self) -> str:
        counts = f"graphs: {len(self.graphs)}, operations: {self.ops}, breaks: {len(self.breaks)}, guards: {len(self.guards)}"
        times = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in self.seconds.items())
        lines = [counts, f"time: {times}"]
        if self.cuda_graphs:
            lines.append(f"recorded graphs: {self.cuda_graphs}")
        for title, items in (
            ("breaks", self.breaks),
            ("data is read", self.reads),
            ("left to Python", self.left_to_python),
            ("traced again", self.recompiles),
            ("guards", self.guards),
        ):
            if items:
                lines.append(f"{title}:")
                lines += [f"  {n}. {item}" for n, item in enumerate(items, 1)]
        return "\n".join(lines)


def explain(function: Callable[..., Any], **arguments: Any) -> Callable[..., Explanation]:
    """``explain(f)(*args)`` calls ``f`` as ``oxytorch.compile(f)`` would on its first call, and tells what was made of it.

    The keyword arguments are those of ``oxytorch.compile``.
    """
    from oxytorch import compile

    if has_calls(function):
        raise TypeError(f"oxytorch.explain takes an object of {function.__qualname__}, not the class: its calls are what is compiled")
    compiled = compile(_original(function), **arguments)

    def call(*args: Any, **kwargs: Any) -> Explanation:
        result = compiled(*args, **kwargs)
        captured = compiled._oxytorch.call if isinstance(compiled, nn.Module) else compiled
        return _explanation(captured.report(), result)

    return call


def _original(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a compiled function or module was made of. Decorators of others leave `__wrapped__`, too, and are part of the function."""
    if isinstance(function, nn.Module):
        return original_module(function)
    return function.__wrapped__ if isinstance(function, Captured) else function


def _explanation(report: dict[str, Any], result: Any) -> Explanation:
    segments = report["segments"]
    return Explanation(
        graphs=[s["graph"] for s in segments if s["graph"] is not None],
        ops=report["ops"],
        breaks=[Break(*parts) for parts in report["breaks"]],
        guards=[guard for s in segments for guard in s["guards"]],
        recompiles=report["recompiles"],
        left_to_python=[s["end"] for s in segments if s["end"].startswith("left to Python")] + report["closed"],
        seconds=report["seconds"],
        result=result,
        reads=report["reads"],
        cuda_graphs=(last_compile() or {}).get("cuda_graphs"),
    )
