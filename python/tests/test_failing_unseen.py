"""Exceptions that depend on values, without a clause for them: nothing behind the operation is done, whoever sees its result."""

import functools
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


VALUES = torch.ones(2, 3)
FIRST = torch.tensor([0, 0])


def a_part_of_it(x, at):
    return x[at][0] + 1


def a_part_of_what_is_made_of_it(x, at):
    return (torch.nn.functional.embedding(at, x) * 2)[:1].sum()


def rows_of_it(x, at):
    return x[at][FIRST] + 1


def cut_by_a_pad(x, at):
    return torch.nn.functional.pad(x[at], (0, 0, 0, -1)) * 2


def copied_over(x, at):
    y = x[at]
    y.copy_(VALUES)
    return y


def filled_and_seen(x, at):
    y = x.scatter(0, at.view(-1, 1), 1.0)
    y.fill_(3)
    return y + x


def written_and_dropped(x, at):
    y = x[at]
    y.mul_(2)
    return x * 2


def only_the_size_of_a_copy(x, at):
    y = x.clone()
    y[at] = 0
    return y.shape


def only_its_likeness(x, at):
    return torch.ones_like(x[at]) * 2


def a_part_of_a_remainder(x, at):
    return (6 % (at - 4))[:1] + 1


IN_PART = [
    a_part_of_it,
    a_part_of_what_is_made_of_it,
    rows_of_it,
    cut_by_a_pad,
    copied_over,
    filled_and_seen,
    written_and_dropped,
    only_the_size_of_a_copy,
    only_its_likeness,
    a_part_of_a_remainder,
]


def raised(function, at, grad):
    try:
        function(TABLE.clone().requires_grad_(grad), at)
    except (IndexError, RuntimeError) as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize("function", IN_PART, ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "with gradients"])
@pytest.mark.parametrize("compiled_by", [oxytorch.compile, functools.partial(torch.compile, backend="oxytorch")], ids=["capture", "dynamo"])
def test_all_of_an_operation_is_looked_at_where_a_part_is_needed(function, grad, compiled_by):
    if grad and function in (only_the_size_of_a_copy, a_part_of_a_remainder):
        pytest.skip("nothing of it has a gradient")
    torch._dynamo.reset()
    compiled = compiled_by(function)
    for at in (GOOD, BAD, GOOD, BAD):
        assert raised(compiled, at, grad) == raised(function, at, grad)


def rows_by_a_constant(x, at):
    return x[torch.tensor([9, 0])][1:] + at[0]


def rows_by_a_count(x, at):
    return x[torch.arange(7)][:3] + at[0]


def divided_by_a_zero(x, at):
    y = at // 0
    return y.fill_(1)


def divided_by_zeros(x, at):
    return (at // torch.zeros_like(at))[:0].sum()


@pytest.mark.parametrize("function", [rows_by_a_constant, rows_by_a_count, divided_by_a_zero, divided_by_zeros], ids=lambda f: f.__name__)
@pytest.mark.parametrize("compiled_by", [oxytorch.compile, functools.partial(torch.compile, backend="oxytorch")], ids=["capture", "dynamo"])
def test_what_always_fails_does(function, compiled_by):
    """Dynamo's graphs are made of tensors without values: nobody has seen it fail."""
    torch._dynamo.reset()
    compiled = compiled_by(function)
    for at in (GOOD, GOOD):
        assert raised(compiled, at, False) == raised(function, at, False) is not None


def test_what_is_needed_as_a_whole_is_asked_for_once():
    compiled = oxytorch.compile(lambda x, at: torch.nn.functional.embedding(at, x).sin() * 2)
    compiled(TABLE, GOOD)
    assert oxytorch.last_compile()["launches"] == 1


def divided_first(at, log):
    (at + 1) // (4 - at)
    log.append("later")
    return TABLE[at]


def test_what_fails_first_raises():
    """A division is tried as indices are: what stands behind it fails, too, and would have been the first."""
    compiled = oxytorch.compile(divided_first)
    for at in (BAD, BAD, GOOD, BAD):
        assert outcome(compiled, at) == outcome(divided_first, at)


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


def a_view_beside_it(x, at, log):
    log.append("before")
    view = x[:, 0]
    view[at]
    return view


def a_view_of_a_result(x, at, log):
    y = x * 2
    log.append("before")
    return y[1:], y.index_select(0, at).sin()


@pytest.mark.parametrize("function", [a_view_beside_it, a_view_of_a_result], ids=lambda f: f.__name__)
def test_what_was_done_before_stays_where_a_graph_is_several_pieces(function):
    """Views that are results are made between two pieces. They change nothing, so what fails behind them is undone as ever."""
    compiled = oxytorch.compile(function)
    for at in (GOOD, BAD, GOOD, BAD):
        found = []
        for called in (compiled, function):
            log, x = [], TABLE.clone().requires_grad_()
            try:
                called(x * 1, at, log)
            except IndexError:
                log.append("raised")
            found.append(log)
        assert found[0] == found[1]
