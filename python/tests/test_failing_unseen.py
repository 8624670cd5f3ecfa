"""Exceptions that depend on values, without a clause for them: nothing behind the operation is done, whoever sees its result."""

import warnings

import measure
import oxytorch
import pytest
import torch
from failing import BAD, GOOD, TABLE


def kept_in_a_list(at, log):
    y = TABLE[at]
    log.append(y + 1)
    log.append("later")
    return y


def of_computed_indices(at, log):
    y = TABLE.index_select(0, at * 2 - at)
    log.append(y.sum())
    return y * 2


def only_its_shape_is_read(at, log):
    return torch.zeros(TABLE[at].shape)


def its_sum_is_dropped(at, log):
    (TABLE[at] * 2).sum()
    return TABLE + 1


def divided_and_dropped(at, log):
    (at + 1) // (4 - at)
    return at * 2


def outcome(function, at):
    log = []
    try:
        result = function(at, log)
    except (IndexError, ZeroDivisionError, RuntimeError) as error:
        result = (type(error), str(error))
    return repr(result), repr(log)


FUNCTIONS = [kept_in_a_list, of_computed_indices, only_its_shape_is_read, its_sum_is_dropped, divided_and_dropped]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("order", [(GOOD, BAD, GOOD, BAD), (BAD, BAD, GOOD, BAD)], ids=["good first", "bad first"])
def test_what_fails_is_seen_in_every_call(function, order):
    compiled = oxytorch.compile(function)
    for at in order:
        assert outcome(compiled, at) == outcome(function, at)


def test_what_does_not_fail_is_dropped():
    compiled = oxytorch.compile(only_its_shape_is_read, fullgraph=True)
    for _ in range(3):
        assert compiled(GOOD, []).shape == (2, 3)


@torch.no_grad()
def test_whole_numbers_that_are_read_are_no_places():
    """A slice of them cannot fail by its values: nobody sees it, and nobody computes it."""
    compiled, x = oxytorch.compile(lambda x: (torch.arange(1000)[None, :, None], x + 1)[1]), torch.ones(8)
    compiled(x)
    assert measure.allocated_mb(lambda: compiled(x)) * 1e6 <= 64


def test_indices_in_the_memory_of_floats_that_are_written():
    def function(floats, at):
        try:
            floats.mul_(0.0)
            return TABLE[at]
        except IndexError:
            return None

    def arguments(value):
        floats = torch.full((2,), value)
        return floats, floats.view(torch.int32)

    compiled = oxytorch.compile(function)
    for value in (1.0, 0.0, 1.0):
        torch.testing.assert_close(compiled(*arguments(value)), function(*arguments(value)))


@pytest.mark.parametrize("view", [lambda y: y.view(-1), lambda y: y[0], lambda y: y.t()], ids=["view", "item", "transposed"])
def test_a_tensor_with_views_becomes_a_leaf(view):
    def function(x):
        y = x * 2
        seen = view(y)
        y.requires_grad_()
        return seen.requires_grad, (seen * 3).requires_grad, y.requires_grad, y.is_leaf

    compiled = oxytorch.compile(function)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="oxytorch: function runs as it is")
        for _ in range(3):
            assert compiled(torch.ones(2, 2)) == function(torch.ones(2, 2))
