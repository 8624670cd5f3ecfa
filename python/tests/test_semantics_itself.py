"""The suite of semantics, tested: CPython agrees with itself, and a capture that does wrong is found out."""

import contextlib
import copy
import io
import os
import pathlib
import shutil
import subprocess

import pytest
from semantics.runner import compare, load

CASES = load()
VERSIONS = ("3.11", "3.12", "3.13")


def interpreter(version):
    """`python3.x` of the path that can run, or pyenv's."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, root.glob(f"{version}.*/bin/python"))]
    runs = (path for path in found if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0)
    return next(runs, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_cpython_agrees_with_itself(version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    command = [python, "-m", "semantics", "--capture", "identity"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_enough():
    assert len(CASES) >= 400
    assert len({case.subject for case in CASES.values()}) >= 15


# Captures that do wrong, each with a case that must find it out.


def remembers(function):
    """Does the first call and repeats its result."""
    results = []

    def captured(*args, **kwargs):
        if not results:
            results.append(function(*args, **kwargs))
        return results[0]

    return captured


def twice(function):
    def captured(*args, **kwargs):
        function(*args, **kwargs)
        return function(*args, **kwargs)

    return captured


def copies_arguments(function):
    return lambda *args, **kwargs: function(*copy.deepcopy(args), **kwargs)


def copies_the_result(function):
    return lambda *args, **kwargs: copy.deepcopy(function(*args, **kwargs))


def silences(function):
    def captured(*args, **kwargs):
        with contextlib.redirect_stdout(io.StringIO()):
            return function(*args, **kwargs)

    return captured


def wraps_exceptions(function):
    def captured(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise type(error)("other words")

    return captured


def loses_the_cause(function):
    def captured(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            error.__cause__ = None
            raise

    return captured


def makes_contiguous(function):
    return lambda *args: tuple(tensor.contiguous() for tensor in function(*args))


def draws_once_more(function):
    import torch

    def captured(*args):
        result = function(*args)
        torch.rand(1)
        return result

    return captured


WRONG = [
    (remembers, "calls.default_value"),
    (remembers, "identity.fresh_list_each_call"),
    (remembers, "closures.global_number_changes"),
    (twice, "effects.order_of_appends"),
    (twice, "closures.counting_closure"),
    (twice, "closures.writes_a_global"),
    (twice, "builtin_functions.print_goes_out"),
    (copies_arguments, "identity.argument_returned"),
    (copies_arguments, "containers.argument_containers_are_written"),
    (copies_the_result, "identity.argument_returned"),
    (copies_the_result, "identity.list_argument_returned"),
    (silences, "builtin_functions.print_goes_out"),
    (wraps_exceptions, "exceptions.uncaught"),
    (loses_the_cause, "exceptions.raise_from"),
    (makes_contiguous, "torch_functions.returned_views"),
    (copies_the_result, "torch_functions.returned_views"),
    (draws_once_more, "torch_functions.random_in_order"),
]


@pytest.mark.parametrize("wrong, name", WRONG, ids=lambda value: getattr(value, "__name__", value))
def test_wrong_captures_are_found_out(wrong, name):
    lines, _ = compare(CASES[name], wrong)
    assert lines
