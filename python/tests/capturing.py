"""Functions run plain and captured, call after call, and compared."""

import copy
import warnings

import torch
from compare import assert_same
from oxytorch import _oxytorch


def outcome(function, *args, **kwargs):
    """The result, or the exception's type and text."""
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, (type(error), str(error))


def check(function, *calls, breaks=0, traced=None, kwargs=None):
    """Calls the captured and the plain function three times with each of the arguments."""
    captured = _oxytorch.capture(function)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("error", message="oxytorch")
        for args in calls:
            for _ in range(3):
                want, want_error = outcome(function, *copy.deepcopy(args), **(kwargs or {}))
                got, got_error = outcome(captured, *copy.deepcopy(args), **(kwargs or {}))
                assert got_error == want_error
                assert_same(got, want)
    stats = captured.stats()
    assert len(stats["breaks"]) == breaks, stats["breaks"]
    assert stats["traced"] == (len(calls) if traced is None else traced), captured.show()
    return captured


def x(*shape):
    return torch.randn(*(shape or (3, 4)))
