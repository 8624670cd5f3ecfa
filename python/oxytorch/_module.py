"""Compiled modules: the same module seen through a class whose call is compiled.

A compiled module shares its ``__dict__`` with the module that it was made of, so parameters, buffers, hooks, ``training`` and every other
attribute are one and the same for both, ``state_dict`` keeps its keys, and ``isinstance`` holds. The original stays as it was.

A class whose objects can be called is compiled where it stands: its body may name it (``super(Net, self)``), and others inherit from it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
from typing import Any, Callable

import torch
import torch.nn as nn

from oxytorch._oxytorch import Captured, show_get

# Makes the callable that stands for another one.
Capture = Callable[[Callable[..., Any]], Callable[..., Any]]


def _get(self: Captured, instance: Any, owner: type | None = None) -> Any:
    """A method of the object. TorchDynamo, under another backend, is shown the function, and makes no methods of what it traces."""
    if instance is None and owner is None:
        raise TypeError("__get__(None, None) is invalid")
    if instance is None:
        return self
    if torch.compiler.is_dynamo_compiling():
        return functools.partial(self.__wrapped__, instance)
    return types.MethodType(self, instance)


show_get(_get)


class _State:
    """What a compiled module has for itself."""

    def __init__(self, module: nn.Module, recompile: Callable[[nn.Module], nn.Module], capture: Capture) -> None:
        self.module = module
        self.recompile = recompile
        self.capture = capture
        self.call = capture(module)
        self.plain_forward = module.forward
        self.forward = capture(self.plain_forward)

    def current_forward(self) -> Callable[..., Any]:
        """What the class has by that name may be another function by now."""
        if self.plain_forward != self.module.forward:
            self.plain_forward = self.module.forward
            self.forward = self.capture(self.plain_forward)
        return self.forward


def compiled_module(module: nn.Module, recompile: Callable[[nn.Module], nn.Module], capture: Capture) -> nn.Module:
    """``recompile`` makes a compiled module of another one in the same way: for copies."""
    original = original_module(module)
    result = object.__new__(_class_of(type(original)))
    object.__setattr__(result, "__dict__", original.__dict__)
    type(result)._oxytorch.__set__(result, _State(original, recompile, capture))
    return result


def _call_of(cls: type) -> Any:
    """What is called when an object of the class is; a metaclass has a ``__call__`` for the class itself."""
    return next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)


def has_calls(thing: Any) -> bool:
    """Whether it is a class of the program's with a ``__call__`` that is written in Python, of its own or inherited."""
    return isinstance(thing, type) and isinstance(_call_of(thing), (types.FunctionType, Captured))


def compiled_class(cls: type, capture: Capture) -> type:
    """The same class. What is compiled takes the object as its argument, so that objects that look alike share it."""
    call = _call_of(cls)
    # A base may have been compiled with other options.
    call = getattr(call, "__wrapped__", call) if isinstance(call, Captured) else call
    if isinstance(call, types.FunctionType):
        cls.__call__ = functools.update_wrapper(capture(call), call)
    return cls


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
    """With the signature of the class's own: trainers ask it for the names of arguments. A scripted module's class has none."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._oxytorch.current_forward()(*args, **kwargs)

    own = getattr(cls, "forward", None)
    return forward if own is None else functools.update_wrapper(forward, own)


def _reduce(self, protocol: Any) -> tuple:
    state = self._oxytorch
    return state.recompile, (state.module,)


def _deepcopy(self, memo: dict) -> nn.Module:
    state = self._oxytorch
    return state.recompile(copy.deepcopy(state.module, memo))


def _copy(self) -> nn.Module:
    state = self._oxytorch
    return state.recompile(copy.copy(state.module))
