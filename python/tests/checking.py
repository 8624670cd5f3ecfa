"""Functions compiled and run beside eager on equal arguments."""

import functools

import compare
import oxytorch
import pytest
import torch


def compiled(function, **options):
    return torch.compile(function, backend=oxytorch.dynamo_backend, fullgraph=True, **options)


def check(function, *args, calls=2, outcome="compiled", native=False, wrapped=None, **options):
    """Compares results and what was done to the arguments; returns the compiled function. `native`: without calls of Python."""
    wrapped = wrapped or compiled(function, **options)
    for _ in range(calls):
        ours, theirs = compare.copies(args), compare.copies(args)
        with torch.no_grad():
            got, want = wrapped(*ours), function(*theirs)
        compare.assert_same(got, want)
        compare.assert_same(ours, theirs, label="argument")
    report = oxytorch.last_compile()
    assert report["outcome"] == outcome, report["reason"]
    assert not (native and report["python_calls"]), report["python_calls"]
    return wrapped


check_native = functools.partial(check, native=True)


def check_raises(function, good, bad, errors=None):
    """Compiled on good arguments, called with bad ones: eager's error (or one of `errors`), and the good ones still work."""
    wrapped = check(function, *good)
    for args in bad:
        with pytest.raises(Exception) as want:
            function(*compare.copies(args))
        with pytest.raises(errors or want.type):
            wrapped(*compare.copies(args))
    check(function, *good, wrapped=wrapped)
