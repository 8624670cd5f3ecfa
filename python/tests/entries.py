"""Functions run through both entry points, beside eager: results, or exceptions with type and text."""

import compare
import oxytorch
import torch

ENTRIES = {"capture": oxytorch.compile, "dynamo": lambda f: torch.compile(f, backend=oxytorch.dynamo_backend)}


def outcome(function, args):
    try:
        return function(*args), args
    except Exception as error:
        return error


def check(entry, function, *args):
    """Results, or exceptions with type and text, on first and later calls; returns eager's."""
    wrapped = entry(function)
    for _ in range(2):
        want = same_outcome(wrapped, function, args)
    return want


def same_outcome(wrapped, function, args):
    """Calls both on copies of the arguments; returns eager's outcome."""
    got, want = outcome(wrapped, compare.copies(args)), outcome(function, compare.copies(args))
    if isinstance(want, Exception):
        assert isinstance(got, type(want)) and str(got).startswith(str(want)), f"{got!r} instead of {want!r}"
    else:
        assert not isinstance(got, Exception), got
        compare.assert_same(got, want)
    return want
