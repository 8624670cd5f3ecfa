from typing import Any, Callable, Mapping, Sequence, TypedDict

import torch

__version__: str

class CompileReport(TypedDict):
    """What the last compile in this process did."""

    outcome: str
    """"compiled" or "eager"."""
    reason: str | None
    """Why the graph runs in eager."""
    stages: dict[str, float]
    """Seconds by stage, in order."""
    graph_nodes: int
    plan_steps: int
    kernels: int
    kernels_compiled: int
    """Kernels that were not in the process's cache."""
    library_calls: dict[str, int]
    """Calls of torch's kernels, by name."""
    python_calls: list[tuple[str, str, str]]
    """Operations done by Python: name, the user's line, and why."""

def compile_fx(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]: ...
def check_options(mode: str | None = None, options: Mapping[str, Any] | None = None) -> None:
    """Raises ValueError for an unknown mode or option, naming what is known."""

def last_compile() -> CompileReport | None: ...
def idle_arena_bytes() -> int:
    """The bytes that this process keeps for intermediates between calls of compiled functions."""


def capture(
    function: Callable[..., Any],
    fullgraph: bool = False,
    limit: int = 8,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Captured:
    """Captures a function or module by our own machine, without Dynamo. Not yet what `oxytorch.compile` does.

    With `fullgraph`, what would end a graph raises instead. `limit` is how many kinds of calls are compiled at one place."""

class Captured:
    """What is called in place of the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def show(self) -> str:
        """The tree of traces: checks, graphs, effects, breaks."""

    def stats(self) -> dict[str, Any]:
        """Calls that were traced, torch operations recorded, segments of the tree, and breaks (line, reason)."""

class NativeCallable:
    def __call__(self, *args: Any) -> Any: ...

def capture(
    function: Callable[..., Any],
    fullgraph: bool = False,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    settings: list[tuple[str, int]] | None = None,
) -> Captured: ...

class Captured:
    """What is called in place of a function that our own machine captured."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def show(self) -> str:
        """The tree of traces as text."""

    def stats(self) -> dict[str, Any]: ...
    def report(self) -> dict[str, Any]: ...
    def reset(self) -> None:
        """Forgets all traces."""
