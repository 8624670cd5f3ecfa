"""Forgetting what was compiled: ``oxytorch.reset``, and ``torch.compiler.reset``, which reaches us as one of Dynamo's backends."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import weakref
from types import ModuleType
from typing import Any, Sequence

_KEEPER = "torch._dynamo.eval_frame"
_captured: weakref.WeakSet[Any] = weakref.WeakSet()


def remember(captured: Any) -> Any:
    """From now on ``reset`` concerns it."""
    _captured.add(captured)
    if _KEEPER in sys.modules:
        _join(sys.modules[_KEEPER])
    return captured


def reset() -> None:
    """Forgets every trace of every compiled function: the next call of each is a first call again. What runs now runs to its end."""
    _backend.reset()
    if _KEEPER in sys.modules:
        _join(sys.modules[_KEEPER])


class _Backend:
    """Dynamo resets the backends that it knows."""

    def reset(self) -> None:
        for captured in list(_captured):
            captured.reset()


_backend = _Backend()


class _Backends(dict):
    """Dynamo's table of backends. It is emptied by a reset; we stay."""

    def clear(self) -> None:
        super().clear()
        self[id(_backend)] = _backend


def _join(keeper: ModuleType) -> None:
    if not isinstance(keeper.cached_backends, _Backends):
        keeper.cached_backends = _Backends(keeper.cached_backends)
    keeper.cached_backends[id(_backend)] = _backend


class _Finder(importlib.abc.MetaPathFinder):
    """Dynamo is loaded when somebody needs it, perhaps only to reset it: we join it then, and do not load it ourselves."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name != _KEEPER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _join(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if _KEEPER in sys.modules:
    _join(sys.modules[_KEEPER])
else:
    sys.meta_path.insert(0, _Finder())
