"""torch.compile, written again in Rust.

    model = torch.compile(model, backend="oxytorch")
    model = oxytorch.compile(model)

The work is done by the extension `oxytorch._oxytorch`; this package is its face.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Mapping, Sequence

import torch
import torch.nn as nn

from oxytorch import _oxytorch, _reset, config
from oxytorch._explain import Explanation, explain
from oxytorch._module import compiled_class, compiled_module, has_calls
from oxytorch._padding import padded
from oxytorch._regions import compile_blocks
from oxytorch._oxytorch import __version__, check_options, last_compile
from oxytorch._reset import reset

__all__ = [
    "Explanation",
    "__version__",
    "check_options",
    "compile",
    "compile_regions",
    "config",
    "dynamo_backend",
    "error_on_graph_break",
    "explain",
    "last_compile",
    "reset",
]


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
    backend: str = "oxytorch",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    shapes: Mapping[str, Mapping[int, tuple[int, int] | None]] | None = None,
) -> Callable[..., Any]:
    """Compiles a function or module; the arguments are those of ``torch.compile``, and ``shapes``.

    The result is called in place of ``model``. A compiled module is the same module seen through another class: it shares all
    of its attributes, and its ``state_dict`` has the same keys. A decorated class whose objects can be called, as modules can, is that class:
    calls of its objects are compiled.

    ``dynamic``: with ``None`` a function is compiled for the sizes that it is first called with, and sizes that change are variables from then
    on; with ``True`` all sizes of arguments are variables at once, with ``False`` none ever is. ``torch._dynamo.mark_dynamic``,
    ``maybe_mark_dynamic`` and ``mark_static`` say it for single dimensions, whatever ``dynamic`` says. ``shapes={"input_ids": {1: (1, 512)}}`` says it by parameter and
    dimension, with the least and the most: the first call compiles for all of them, unless a size is 1 in it, and a size beyond raises ValueError.

    ``options={"pad_to": {"input_ids": {1: 64}, "attention_mask": {1: 64}}}`` pads dimensions of arguments to multiples (or to the next of a list of
    sizes; with ``(64, value)`` to pad with another value than 0) and cuts results back, for modes that need fixed sizes. That it is safe, since what
    is padded is masked, is the caller's word.
    """
    check_options(mode, _split(options)[1])
    if backend != "oxytorch":
        raise ValueError(f"oxytorch.compile has one backend, 'oxytorch', not {backend!r}; torch.compile takes others")
    if not (dynamic is None or isinstance(dynamic, bool)):
        raise TypeError(f"dynamic is True, False or None, not {dynamic!r}")
    arguments = dict(fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options, disable=disable, shapes=shapes)
    if model is None:
        return lambda function: compile(function, **arguments)
    if not callable(model):
        raise TypeError(f"oxytorch.compile takes a function or a module, not {model!r}")
    if disable or _is_disabled():
        return model

    static = dict(_split(options)[0]).get("assume_static_by_default", config.assume_static_by_default)
    if dynamic is None and not static:
        dynamic = True
    capture = _capturer(fullgraph, dynamic, mode, options, shapes)
    if has_calls(model):
        return compiled_class(model, capture)
    if isinstance(model, nn.Module):
        return compiled_module(model, functools.partial(compile, **arguments), capture)
    captured = functools.update_wrapper(capture(model), model)
    if inspect.iscoroutinefunction(model) and hasattr(inspect, "markcoroutinefunction"):
        inspect.markcoroutinefunction(captured)
    captured._recompile = functools.partial(compile, **arguments)
    return captured


def compile_regions(
    model: nn.Module,
    *,
    fullgraph: bool = False,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Compiles the repeated blocks of a model in place, one artifact for all of a kind, and returns the model.

    The code around the blocks runs as it is. A model without repeated blocks is an error: compile it whole.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"oxytorch.compile_regions takes a module, not {model!r}")
    if _is_disabled():
        return model
    if compile_blocks(model, _capturer(fullgraph, None, mode, options)) == 0:
        raise ValueError(f"{type(model).__name__} has no repeated blocks (several modules of one class in a ModuleList or Sequential)")
    return model


def error_on_graph_break(error_on_graph_break: bool) -> Any:
    """While it holds (as a context, or for a decorated function), a graph that would break raises instead; torch's own."""
    import torch._dynamo

    return torch._dynamo.error_on_graph_break(error_on_graph_break)


def _is_disabled() -> bool:
    return "1" in (os.environ.get("TORCH_COMPILE_DISABLE"), os.environ.get("TORCHDYNAMO_DISABLE"))


def _capturer(
    fullgraph: bool,
    dynamic: bool | None,
    mode: str | None,
    options: Mapping[str, Any] | None,
    shapes: Mapping[str, Mapping[int, Any]] | None = None,
) -> Callable[..., Callable[..., Any]]:
    settings, rest, pad_to = _split(options)
    check_options(mode, rest)

    def capture(function: Callable[..., Any], shapes: Any = shapes) -> Callable[..., Any]:
        captured = _oxytorch.capture(
            function, fullgraph=fullgraph, mode=mode, options=rest, settings=settings, dynamic=dynamic, shapes=shapes
        )
        return _reset.remember(captured)

    if pad_to is not None:
        return lambda function: padded(function, pad_to, shapes, capture)
    return capture


def _split(options: Mapping[str, Any] | None) -> tuple[list[tuple[str, int]], dict[str, Any], Any]:
    """Settings of capture, what the compiler takes as an option, and ``pad_to``."""
    options = dict(options or {})
    pad_to = options.pop("pad_to", None)
    return *_oxytorch.split_options(options), pad_to
