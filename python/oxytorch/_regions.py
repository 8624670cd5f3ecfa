"""Regional compilation: the repeated blocks of a deep model, compiled once for all of them."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch.nn as nn


def repeated_blocks(model: nn.Module) -> list[list[nn.Module]]:
    """Groups of modules that stand side by side in a list or sequence, of one class and with submodules of their own; outermost only."""
    groups: list[list[nn.Module]] = []

    def walk(module: nn.Module) -> None:
        inside: set[int] = set()
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            by_class: dict[type, list[nn.Module]] = {}
            for child in module:
                if next(child.children(), None) is not None:
                    by_class.setdefault(type(child), []).append(child)
            for blocks in by_class.values():
                distinct = list({id(block): block for block in blocks}.values())
                if len(distinct) > 1:
                    groups.append(distinct)
                    inside.update(map(id, distinct))
        for child in module.children():
            if id(child) not in inside:
                walk(child)

    walk(model)
    return groups


def call_block(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """What is compiled: the module is an argument, so that one trace serves all that look alike."""
    return module._call_impl(*args, **kwargs)


def compile_blocks(model: nn.Module, capture: Callable[[Callable[..., Any]], Callable[..., Any]]) -> int:
    """Compiles the groups in place; returns how many blocks there were."""
    count = 0
    for blocks in repeated_blocks(model):
        shared = capture(call_block)
        for block in blocks:
            block._compiled_call_impl = functools.partial(shared, block)
            count += 1
    return count
