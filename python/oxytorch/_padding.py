"""``options={"pad_to": ...}``: sizes of arguments are padded to buckets, and results are cut back.

    oxytorch.compile(model, options={"pad_to": {"input_ids": {1: 64}, "attention_mask": {1: [32, 128, 512]}, "labels": {1: (64, -100)}}})

By parameter and dimension: a multiple, a list of sizes, or one of them with the value to pad with (0 otherwise). That padding is safe, because
what is padded is masked for example, is the user's word. The padded sizes are variables of the trace; a dimension of a result is cut exactly if
its size is such a variable in the graph, whatever numbers happen to be equal. One that is made of it otherwise (flattened, doubled) is an error,
and so are a function that breaks and a result that is neither a tensor, a plain value, nor a tuple, list, dict or dataclass of them.

What the function writes to a padded argument is copied back, and a result that is the argument is the caller's own tensor. Beyond that the function
works on a copy: a view of an argument that it returns is a view of the copy; side effects, and numbers that it takes from sizes, are those of
the padded sizes.

Here stands what is traced with the function; the rest is done by the extension's ``Padding``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any, Callable, Iterator

import torch
import torch.nn as nn

from oxytorch._oxytorch import Padding, size_relation


def padded(function: Callable[..., Any], pad_to: Any, shapes: Any, capture: Callable[..., Any]) -> Callable[..., Any]:
    """``capture(function, shapes)``, called with padded arguments."""
    plain = function.forward if isinstance(function, nn.Module) else function
    signature = inspect.signature(plain)
    parameters = [p.name for p in signature.parameters.values() if not p.kind.name.startswith("VAR_")]
    by_place = [p.name for p in signature.parameters.values() if p.kind.name.startswith("POSITIONAL")]
    padding = Padding(pad_to, parameters, by_place)
    dims = padding.dims
    declared = {name: dict(dims) for name, dims in (shapes or {}).items()}
    for name, dim in dims:
        declared.setdefault(name, {}).setdefault(dim, None)

    def traced(*args, **kwargs):
        given = [(_argument(name, by_place, args, kwargs), dim) for name, dim in dims]
        sizes = [tensor.shape[dim] for tensor, dim in given if isinstance(tensor, torch.Tensor)]
        result = function(*args, **kwargs)
        return result, [[_relation(size, sizes) for size in tensor.shape] for tensor in _tensors(result)]

    traced.__signature__ = signature
    captured = capture(traced, declared)

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        return padding.call(captured, args, kwargs)

    call.stats, call.report, call.show, call.reset = captured.stats, captured.report, captured.show, captured.reset
    return call


def _argument(name: str, by_place: list[str], args: tuple, kwargs: dict) -> Any:
    if name in kwargs:
        return kwargs[name]
    place = by_place.index(name) if name in by_place else len(args)
    return args[place] if place < len(args) else None


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    """Those in tuples, lists, dicts and dataclasses, in their order."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, dict):
        for item in result.values():
            yield from _tensors(item)
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from _tensors(item)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            yield from _tensors(getattr(result, field.name, None))


def _relation(size: Any, sizes: list[Any]) -> list[tuple[int, int]]:
    """To the first padded size that it is, or else to all that it may be made of: the places of those, and how."""
    others = []
    for place, padded_size in enumerate(sizes):
        how = size_relation(size, padded_size)
        if how == 1:
            return [(place, 1)]
        if how != 0:
            others.append((place, how))
    return others
