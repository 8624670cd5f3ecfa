"""Settings that hold for the whole process. Each is also an environment variable, ``OXYTORCH_`` and its name in capitals, read at import.

    import oxytorch
    oxytorch.config.recompile_limit = 16

A setting may be given to one function as an option: ``oxytorch.compile(f, options={"recompile_limit": 16})``.
"""

from __future__ import annotations

import difflib
import os
import sys
import types
from collections.abc import Mapping

SETTINGS: dict[str, bool | int] = {
    "recompile_limit": 8,  # traces that may begin at one place before the function runs as it is
    "accumulated_recompile_limit": 256,  # traces of one function in all
    "error_on_recompile": False,  # raise, with what changed, instead of tracing a function again
}
ALIASES = {"cache_size_limit": "recompile_limit", "error_on_recompilation": "error_on_recompile"}


class _Config(types.ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):
            return super().__setattr__(name, value)
        name = known_name(name)
        super().__setattr__(name, checked(name, value))

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__[known_name(name)]


def known_name(name: str) -> str:
    name = ALIASES.get(name, name)
    if name not in SETTINGS:
        near = difflib.get_close_matches(name, [*SETTINGS, *ALIASES], 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise AttributeError(f"oxytorch.config has no setting {name!r}; {hint}there are {', '.join([*SETTINGS, *ALIASES])}")
    return name


def checked(name: str, value: object) -> bool | int:
    if isinstance(SETTINGS[name], bool):
        if not isinstance(value, bool):
            raise TypeError(f"oxytorch.config.{name} is True or False, not {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"oxytorch.config.{name} is a whole number from 1, not {value!r}")
    return value


def split(options: Mapping[str, object] | None) -> tuple[list[tuple[str, int]], dict[str, object]]:
    """Settings for one function, and the options that are no settings."""
    own, rest = [], {}
    for name, value in (options or {}).items():
        known = ALIASES.get(name, name)
        if known in SETTINGS:
            own.append((known, int(checked(known, value))))
        else:
            rest[name] = value
    return own, rest


def from_environment(name: str, text: str) -> bool | int:
    if isinstance(SETTINGS[name], bool):
        words = {"1": True, "true": True, "0": False, "false": False}
        if text.lower() not in words:
            raise ValueError(f"OXYTORCH_{name.upper()} is 0 or 1, not {text!r}")
        return words[text.lower()]
    if not text.isdigit():
        raise ValueError(f"OXYTORCH_{name.upper()} is a whole number from 1, not {text!r}")
    return checked(name, int(text))


def _load() -> None:
    module = sys.modules[__name__]
    for name, default in SETTINGS.items():
        spellings = [name, *(alias for alias, of in ALIASES.items() if of == name)]
        texts = [os.environ[f"OXYTORCH_{s.upper()}"] for s in spellings if f"OXYTORCH_{s.upper()}" in os.environ]
        module.__dict__[name] = from_environment(name, texts[0]) if texts else default
    module.__class__ = _Config


_load()
