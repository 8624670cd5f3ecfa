"""Settings that hold for the whole process. Each is also an environment variable, ``OXYTORCH_`` and its name in capitals, read at import.

    import oxytorch
    oxytorch.config.recompile_limit = 16
    help(oxytorch.config)

A setting may be given to one function as an option: ``oxytorch.compile(f, options={"recompile_limit": 16})``.
"""

from __future__ import annotations

import sys
import types

from oxytorch import _oxytorch


class _Config(types.ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):
            return super().__setattr__(name, value)
        _oxytorch.set_setting(name, value)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _oxytorch.get_setting(name)

    def __dir__(self) -> list[str]:
        return [name for name, _, _ in _oxytorch.settings()]


__doc__ += "\n" + "\n".join(
    f"{name}{f' ({alias})' if alias else ''}: {about}" for name, alias, about in _oxytorch.settings()
)
sys.modules[__name__].__class__ = _Config
