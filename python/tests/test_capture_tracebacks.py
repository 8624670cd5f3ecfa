"""The lines of an exception that comes out of a call which only Python can make: those of CPython, in the first call and in later ones."""

import traceback

import oxytorch
import pytest
import torch


class Wrong(Exception):
    pass


@torch.compiler.disable
def fails(x):
    raise Wrong("no")


def lines(error):
    return [(line.name, line.lineno) for line in traceback.extract_tb(error.__traceback__)]


def caught(x):
    try:
        fails(x + 1)
    except Wrong as error:
        return lines(error)


def caught_further_out(x):
    def inner(y):
        with torch.no_grad():
            return fails(y)

    def outer(y):
        try:
            return inner(y)
        except KeyError:
            return None

    try:
        outer(x)
    except Wrong as error:
        return lines(error)


def raised_again(x):
    def inner(y):
        try:
            fails(y)
        except Wrong:
            print(end="")
            raise

    try:
        inner(x)
    except Wrong as error:
        return lines(error)


def raised_by_name(x):
    def inner(y):
        try:
            fails(y)
        finally:
            x.sin()

    try:
        inner(x)
    except Wrong as error:
        first = lines(error)
        print(end="")
        try:
            raise error
        except Wrong as again:
            return first, lines(again)


def raised_twice_in_one_part(x):
    try:
        fails(x)
    except Wrong as error:
        kept = error
    for _ in range(2):
        try:
            raise kept
        except Wrong:
            pass
    return lines(kept)


def of_a_generator(x):
    def values():
        try:
            yield fails(x)
        finally:
            print(end="")

    try:
        return list(values())
    except Wrong as error:
        return lines(error)


def a_context_manager_is_told(x):
    class Told:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, found):
            self.lines = [(line.name, line.lineno) for line in traceback.extract_tb(found)]
            return True

    with Told() as told:
        fails(x)
    return told.lines


def another_because_of_it(x):
    try:
        fails(x)
    except Wrong as error:
        raise ValueError("other") from error


def nobody_catches_it(x):
    def inner():
        return fails(x)

    inner()


CASES = [
    caught,
    caught_further_out,
    raised_again,
    raised_by_name,
    raised_twice_in_one_part,
    of_a_generator,
    a_context_manager_is_told,
    another_because_of_it,
    nobody_catches_it,
]


def outcome(function, x):
    try:
        return function(x)
    except Exception as error:
        cause = error.__cause__
        return type(error), str(error), lines(error)[1:], cause and lines(cause)


@pytest.mark.parametrize("function", CASES, ids=lambda case: case.__name__)
def test_lines_of_tracebacks(function):
    captured, x = oxytorch.compile(function), torch.ones(2)
    for _ in range(3):
        assert outcome(captured, x) == outcome(function, x)


def test_an_exception_of_the_callers_gets_a_line_with_every_call():
    def function(error):
        torch.ones(1)
        raise error

    def follow(called):
        error = Wrong("again")
        for _ in range(3):
            with pytest.raises(Wrong):
                called(error)
        return [name for name, _ in lines(error)]

    captured = oxytorch.compile(function)
    assert follow(captured) == follow(captured) == follow(function)
