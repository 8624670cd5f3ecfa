"""torch.compile, written again in Rust.

    model = torch.compile(model, backend="oxytorch")
    model = oxytorch.compile(model)

The work is done by the extension `oxytorch._oxytorch`; this package is its face.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import torch

from oxytorch import _oxytorch
from oxytorch._oxytorch import __version__, check_options, last_compile

__all__ = ["__version__", "check_options", "compile", "dynamo_backend", "last_compile"]


def dynamo_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend behind ``torch.compile(model, backend="oxytorch")``: takes Dynamo's graph, returns a native callable.

    What cannot be compiled is returned as it was, ``gm.forward``, with one warning that says why.
    """
    return _oxytorch.compile_fx(gm, example_inputs, mode, options)


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> Callable[..., Any]:
    """Compiles a function or module; the arguments are those of ``torch.compile``.

    For now Python code is captured by torch's own Dynamo: this is ``torch.compile(model, backend="oxytorch", ...)``, except that
    a wrong mode or option is reported here and not at the first call, and that a mode and options may be given together.
    """
    check_options(mode, options)
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options, disable=disable
        )

    return torch.compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=_Backend(mode, options), disable=disable)


class _Backend:
    """`dynamo_backend` with its mode and options. Two are equal if they would compile alike: Dynamo caches by this."""

    __name__ = "oxytorch"

    def __init__(self, mode: str | None, options: Mapping[str, Any] | None) -> None:
        self.mode = mode
        self.options = dict(options or {})

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return dynamo_backend(gm, example_inputs, mode=self.mode, options=self.options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backend) and (self.mode, self.options) == (other.mode, other.options)

    def __hash__(self) -> int:
        return hash((self.mode, tuple(sorted(self.options))))
