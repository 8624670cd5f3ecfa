"""What a case is: a function, how its arguments are made, and in how many graphs it should be."""

import dataclasses
import sys
from typing import Callable

CASES = {}
ANY = 1000  # graphs: breaks are fair


@dataclasses.dataclass(frozen=True)
class Call:
    args: tuple
    kwargs: dict

    @staticmethod
    def of(made):
        """What a maker of arguments returned: a Call, a tuple of positional arguments, or the only argument."""
        if isinstance(made, Call):
            return made
        return Call(made if type(made) is tuple else (made,), {})


def call(*args, **kwargs):
    return Call(args, kwargs)


@dataclasses.dataclass(frozen=True)
class Case:
    """`calls` make arguments: the first the usual ones, the others some that must be told from them.

    `graphs` is how many pieces a call may be in: 1 if nothing may break it. `again` is false where the function itself changes what it
    reads, so that the second call is not of the first's kind. `eager` allows that it is not captured. `between` changes the outside before
    the last calls, `state` names the globals that each side begins with and that are compared. `grad` leaves grad mode on, `close` allows
    the tolerance of the dtype.
    """

    name: str
    subject: str
    make: Callable
    calls: tuple
    graphs: int = 1
    again: bool = True
    eager: bool = False
    between: Callable | None = None
    state: Callable | None = None
    grad: bool = False
    close: bool = False

    def plan(self):
        """The makers of the arguments, call by call; None stands for `between`."""
        first, *changed = self.calls
        steps = [first, first]
        if self.between:
            steps += [None, first]
        for maker in changed:
            steps += [maker, maker]
        return [*steps, first]


def nothing():
    return ()


def case(*calls, **options):
    """The function below is the case."""

    def register(function):
        add(function, lambda: function, calls, options)
        return function

    return register


def made(*calls, **options):
    """The function below makes what is captured, anew for each side: a closure, a bound method, a module."""

    def register(maker):
        add(maker, maker, calls, options)
        return maker

    return register


def add(function, make, calls, options):
    subject = function.__module__.rpartition(".")[2]
    name = f"{subject}.{function.__name__}"
    if name in CASES:
        raise ValueError(f"two cases are called {name}")
    CASES[name] = Case(name, subject, make, calls or (nothing,), **options)


def globals_of(case):
    """The dict in which the case's global names live: that of the module that it was written in."""
    return vars(sys.modules[f"{__package__}.cases.{case.subject}"])
