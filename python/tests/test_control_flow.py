"""`torch.cond` and `while_loop`: the data is asked between two graphs, and the branch that is taken is traced as any code."""

import oxytorch
import pytest
import torch
from compare import assert_same
from torch._higher_order_ops import while_loop


def by_data(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) + 1


def by_size(x):
    return torch.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.cos(), (x,))


def of_what_is_around(x):
    y = x * 2
    return torch.cond((x > 0).all(), lambda: y + x, lambda: y - x)


def inside_of_another(x):
    def inner(x):
        return torch.cond(x.max() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    return torch.cond(x.sum() > 0, lambda x: inner(x) * 2, lambda x: inner(x) * 3, (x,))


def of_tables(x):
    return torch.cond(x.sum() > 0, lambda t: {"y": t["a"] + t["b"][0]}, lambda t: {"y": t["a"] - t["b"][0]}, ({"a": x, "b": [x * 2]},))["y"]


def counted(x):
    return while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (torch.tensor(0), x))


def until_the_data_says(x):
    return while_loop(lambda x: x.abs().sum() < 20, lambda x: (x * 2,), (x,))


CASES = [by_data, by_size, of_what_is_around, inside_of_another, of_tables, counted, until_the_data_says]
GIVEN = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-9.0, 1.0, 2.0]), torch.tensor([1.0, 2.0])]


@pytest.mark.parametrize("function", CASES, ids=lambda case: case.__name__)
def test_as_eager_in_one_trace(function):
    captured = oxytorch.compile(function, fullgraph=True)
    expected = [function(x) for x in GIVEN]
    for _ in range(2):
        for x, want in zip(GIVEN, expected):
            assert_same(captured(x), want)


def test_gradients_of_the_branch_that_is_taken():
    captured = oxytorch.compile(by_data, fullgraph=True)
    for given in GIVEN * 2:
        ours, theirs = (given.clone().requires_grad_() for _ in range(2))
        captured(ours).sum().backward()
        (theirs.sin() if given.sum() > 0 else theirs.cos()).sum().backward()
        assert_same(ours.grad, theirs.grad)


@pytest.mark.parametrize("pred", ["text", None, [True]])
def test_refused_in_torch_s_words(pred):
    def function(x):
        return torch.cond(pred, torch.sin, torch.cos, (x,))

    assert_refused_alike(function)


def test_a_condition_of_many_elements_is_refused_in_torch_s_words():
    assert_refused_alike(lambda x: torch.cond(x > 0, torch.sin, torch.cos, (x,)))


@pytest.mark.parametrize("operand", [2, "a", None])
def test_operands_that_are_no_tensors_are_refused_in_torch_s_words(operand):
    assert_refused_alike(lambda x: torch.cond(x.sum() > 0, lambda x, _: x.sin(), lambda x, _: x.cos(), (x, operand)))


def with_a_number(x):
    return while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (0, x))


def of_a_tensor_alone(x):
    return while_loop(lambda x: x.abs().sum() < 20, lambda x: x * 2, (x,))


def no_round_of_a_tensor_alone(x):
    return while_loop(lambda x: x.abs().sum() < 0, lambda x: x * 2, (x,))


def no_round_of_a_list(x):
    return while_loop(lambda n, x: n < 0, lambda n, x: [n + 1, x * 2], [torch.tensor(0), x])


@pytest.mark.parametrize("function", [with_a_number, of_a_tensor_alone, no_round_of_a_tensor_alone, no_round_of_a_list])
def test_a_loop_returns_what_its_body_does(function):
    captured = oxytorch.compile(function)
    for x in GIVEN * 2:
        want, got = function(x), captured(x)
        assert type(got) is type(want)
        assert_same(got, want)


def test_a_loop_without_a_round_gives_copies():
    def function(x):
        _, y = while_loop(lambda n, x: n < 0, lambda n, x: (n + 1, x * 2), (torch.tensor(0), x))
        return y.add_(1)

    captured = oxytorch.compile(function)
    for _ in range(2):
        x = torch.ones(3)
        assert_same(captured(x), torch.full((3,), 2.0))
        assert_same(x, torch.ones(3))


def assert_refused_alike(function):
    captured, x = oxytorch.compile(function), torch.ones(2)
    for _ in range(2):
        with pytest.raises(RuntimeError) as want:
            function(x)
        with pytest.raises(RuntimeError) as got:
            captured(x)
        assert str(got.value) == str(want.value)
