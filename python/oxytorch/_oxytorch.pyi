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

def inject_fault(stage: str | None = None) -> None:
    """For tests: from now on this stage of the compiler panics, takes long ("slow run") or is not done ("refused launch"); None ends that."""

def last_compile() -> CompileReport | None: ...
def background_variants() -> tuple[int, int]:
    """Waits for the kernels that are compiled in the background for sizes that recur; then how many lists of sizes have some, and how many
    kernels, in this process."""

def idle_arena_bytes() -> int:
    """The bytes that this process keeps for intermediates between calls of compiled functions."""

def compared_products() -> int:
    """For how many products the library's ways have been compared on a GPU, in this process."""

def launched_rows() -> int:
    """How often launches that stand side by side were put on a GPU's stream in a row, in this process."""

def kept_result_bytes() -> int:
    """The bytes of large results that torch has freed and this process keeps for the next ones."""


class Padding:
    def __init__(self, pad_to: Any, parameters: list[str], by_place: list[str]) -> None:
        """Raises TypeError or ValueError for what cannot be meant."""
    @property
    def dims(self) -> list[tuple[str, int]]:
        """The parameters and dimensions that are padded."""
    def call(self, captured: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Pads the arguments, calls, and cuts the result. ``captured`` returns it with the relations of its sizes."""

class NativeCallable:
    def __call__(self, *args: Any) -> Any: ...

def capture(
    function: Callable[..., Any],
    fullgraph: bool = False,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    settings: list[tuple[str, int]] | None = None,
    dynamic: bool | None = None,
) -> Captured: ...
def get_setting(name: str) -> bool | int: ...
def set_setting(name: str, value: object) -> None: ...
def settings() -> list[tuple[str, str | None, str]]:
    """Name, alias and meaning of every setting of `oxytorch.config`."""

def split_options(options: dict[str, Any] | None = None) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """Settings for one function, and what the compiler takes as an option."""

class Captured:
    """What is called in place of a function that our own machine captured."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def show(self) -> str:
        """The tree of traces as text."""

    def stats(self) -> dict[str, Any]: ...
    def report(self) -> dict[str, Any]: ...
    def reset(self) -> None:
        """Forgets all traces."""
