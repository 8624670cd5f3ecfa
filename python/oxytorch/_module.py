"""Compiled modules: the same module seen through a class whose call is compiled.

A compiled module shares its ``__dict__`` with the module that it was made of, so parameters, buffers, hooks, ``training`` and every other
attribute are one and the same for both, ``state_dict`` keeps its keys, and ``isinstance`` holds. The original stays as it was.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, Callable

import torch.nn as nn

# Makes the callable that stands for another one.
Capture = Callable[[Callable[..., Any]], Callable[..., Any]]


class _State:
    """What a compiled module has for itself."""

    def __init__(self, module: nn.Module, recompile: Callable[[nn.Module], nn.Module], capture: Capture) -> None:
        self.module = module
        self.recompile = recompile
        self.call = capture(module)
        self.forward = capture(module.forward)


def compiled_module(module: nn.Module, recompile: Callable[[nn.Module], nn.Module], capture: Capture) -> nn.Module:
    """``recompile`` makes a compiled module of another one in the same way: for copies."""
    original = original_module(module)
    result = object.__new__(_class_of(type(original)))
    object.__setattr__(result, "__dict__", original.__dict__)
    type(result)._oxytorch.__set__(result, _State(original, recompile, capture))
    return result


def original_module(module: nn.Module) -> nn.Module:
    """The module that a compiled one was made of; any other is its own."""
    state = getattr(type(module), "_oxytorch", None)
    return state.__get__(module).module if state is not None else module


def _class_of(cls: type) -> type:
    """One for all compiled modules of a class, as long as there are some: CPython knows the subclasses that are alive."""
    for known in type.__subclasses__(cls):
        if known.__dict__.get("__call__") is _call:
            return known
    body = dict(
        __slots__=("_oxytorch",),
        __module__=cls.__module__,
        __qualname__=cls.__qualname__,
        __doc__=cls.__doc__,
        __call__=_call,
        forward=_forward_of(cls),
        __reduce_ex__=_reduce,
        __deepcopy__=_deepcopy,
        __copy__=_copy,
    )
    return type(cls)(cls.__name__, (cls,), body)


def _call(self, *args: Any, **kwargs: Any) -> Any:
    return self._oxytorch.call(*args, **kwargs)


def _forward_of(cls: type) -> Callable[..., Any]:
    """With the signature of the class's own: trainers ask it for the names of arguments."""

    @functools.wraps(cls.forward)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._oxytorch.forward(*args, **kwargs)

    return forward


def _reduce(self, protocol: Any) -> tuple:
    state = self._oxytorch
    return state.recompile, (state.module,)


def _deepcopy(self, memo: dict) -> nn.Module:
    state = self._oxytorch
    return state.recompile(copy.deepcopy(state.module, memo))


def _copy(self) -> nn.Module:
    state = self._oxytorch
    return state.recompile(copy.copy(state.module))
