"""Which sizes vary: what is seen, what is marked, what is refused."""

import collections

import oxytorch
import pytest
import torch
import torch.nn as nn
from compare import assert_same
from dynamic import check, rand


def test_first_static_then_all_that_changes():
    shapes = [(3, 4), (5, 6), (7, 4), (3, 9), (3, 4)]
    check(lambda x: torch.softmax(x @ x.t(), -1), [(rand(*s),) for s in shapes], dynamic=None, compiles=2)


def test_never():
    check(lambda x: x * 2, [(rand(n, 3),) for n in (2, 3, 4, 5)], dynamic=False, compiles=4)


def test_marked_dimensions():
    captured = oxytorch._oxytorch.capture(lambda x: x * 2)
    for n in (4, 9, 5):
        x = rand(n, 3)
        torch._dynamo.mark_dynamic(x, 0)
        assert_same(captured(x), x * 2)
    assert captured.stats()["traced"] == 1
    captured = oxytorch._oxytorch.capture(lambda x: x * 2, dynamic=True)
    for n in (4, 9):
        x = rand(n, 3)
        torch._dynamo.mark_static(x, 0)
        assert_same(captured(x), x * 2)
    assert captured.stats()["traced"] == 2


@pytest.mark.parametrize("function", [lambda x: (x * 2).sum(0), lambda x: torch.softmax(x @ x.transpose(-1, -2), -1) @ x, lambda x: x.flatten(1).cumsum(0)])
@pytest.mark.parametrize("mark", [torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic])
def test_a_marked_size_may_begin_with_1(function, mark):
    """Code that is made for 1 is for 1 alone; the next is for all."""
    captured = oxytorch._oxytorch.capture(function)
    with torch.no_grad():
        for n in (1, 4, 7, 1, 3):
            x = rand(n, 5, 8)
            mark(x, 0)
            assert_same(captured(x), function(x))
    assert captured.stats()["traced"] == 2


# Code that is made for a size of 1 says nothing of others: each of these was wrong once for 5.
AFTER_ONE = {
    "sum": lambda x: x.exp().sum(0),
    "returns_its_argument": lambda x: torch.broadcast_tensors(x, x.sum(0, keepdim=True))[1] + 1,
    "memory_order": lambda x: torch.zeros_like(x.t()).flatten().add_(1),
    "a_view_of_it": lambda x: (y := torch.zeros_like(x.t()), y.flatten().add_(1))[0],
}


@pytest.mark.parametrize("function", AFTER_ONE.values(), ids=AFTER_ONE)
def test_a_size_that_is_seen_to_change_to_1(function):
    check(function, [(rand(n, 4),) for n in (3, 1, 5, 2, 1)], dynamic=None, compiles=3)


def test_whether_two_have_the_same_size():
    check(lambda x: x.is_same_size(x[:1]), [(rand(n, 4),) for n in (3, 1, 5)], dynamic=None, compiles=3)


def test_a_view_that_only_1_allows():
    def function(x):
        try:
            return x.view(-1) * 2
        except RuntimeError:
            return x.reshape(-1) * 3

    compiled = oxytorch.compile(function)
    for n in (3, 1, 5):
        x = rand(n, 8)[:, :4]
        assert_same(compiled(x), function(x))


def test_past_the_limit_comes_one_trace_for_all():
    captured = oxytorch._oxytorch.capture(lambda x, y: x[:, :1] + y.sum(), settings=[("recompile_limit", 2)])
    with torch.no_grad():
        for a, b in ((2, 3), (4, 3), (4, 5), (5, 6), (7, 8), (9, 2)):
            x, y = rand(a, 3), rand(b, 2)
            assert_same(captured(x, y), x[:, :1] + y.sum())
    assert captured.stats()["traced"] == 3


CALLED = r" \(called at .*test_dynamic_policy.py:\d+\)"
"""The line that an error about marks names."""


def marked(tensor, dim, **limits):
    torch._dynamo.mark_dynamic(tensor, dim, **limits)
    return tensor


def test_ranges_are_kept():
    captured = oxytorch._oxytorch.capture(lambda x: x * 2)
    captured(marked(rand(4, 3), 0, min=2, max=8))
    with pytest.raises(ValueError, match=r"argument 0: dimension 0 is declared by mark_dynamic to be 2 to 8, but its size is 9" + CALLED):
        captured(marked(rand(9, 3), 0, min=2, max=8))
    assert captured.stats()["traced"] == 1


def test_marks_that_contradict_one_another():
    x = marked(rand(4, 3), 0)
    x._dynamo_static_indices = {0}
    with pytest.raises(ValueError, match=r"x\['a'\]: dimension 0 is marked both as one that varies and as one that does not" + CALLED):
        oxytorch._oxytorch.capture(lambda x: x["a"] * 2)(x={"a": x})


def test_a_marked_dimension_that_must_be_constant():
    weight = rand(3, 2)
    with pytest.raises(ValueError, match=r"dimension 1 of arg0 is marked .* to be 3 \(.*test_dynamic_policy.py:\d+"):
        oxytorch._oxytorch.capture(lambda x: x @ weight)(marked(rand(4, 3), 1))
    with pytest.raises(ValueError, match=r"dimension 0 of arg0 is marked .* to be 4 \(.*test_dynamic_policy.py:\d+"):
        oxytorch._oxytorch.capture(lambda x: [x[n] for n in range(len(x))])(marked(rand(4, 3), 0))


class Batch:
    def __init__(self, x):
        self.x = x


Pair = collections.namedtuple("Pair", "x y")


@pytest.mark.parametrize("hold", [Batch, lambda x: Pair(x, 1), lambda x: {"a": [Batch(x)]}], ids=["object", "namedtuple", "deeper"])
def test_ranges_of_what_arguments_hold(hold):
    def function(batch):
        batch = batch["a"][0] if isinstance(batch, dict) else batch
        return batch.x * 2

    compiled = oxytorch.compile(function)
    for n in (4, 8, 2):
        assert compiled(hold(marked(rand(n, 3), 0, min=2, max=8))).shape == (n, 3)
    with pytest.raises(ValueError, match=r"(\.x|\[0\]): dimension 0 is declared by mark_dynamic to be 2 to 8, but its size is 9" + CALLED):
        compiled(hold(marked(rand(9, 3), 0, min=2, max=8)))
    assert compiled(hold(marked(rand(5, 3), 0, min=2, max=8))).shape == (5, 3)


@pytest.mark.parametrize("grad", [False, True])
def test_a_mark_that_is_broken_in_front_of_a_break(grad):
    weight = rand(3, 2).requires_grad_(grad)

    def function(x):
        y = x @ weight
        torch._dynamo.graph_break()
        return y * 2

    with pytest.raises(ValueError, match=r"dimension 1 of arg0 is marked .* to be 3 \(.*test_dynamic_policy.py:\d+"):
        oxytorch.compile(function)(marked(rand(4, 3), 1))


def test_recompiles_are_explained():
    def f(x):
        return x.sum(1) if x.shape[1] > 8 else x.mean(1)

    captured = oxytorch._oxytorch.capture(f, dynamic=True)
    captured(rand(3, 4)), captured(rand(3, 12))
    (why,) = captured.report()["recompiles"]
    assert "arg0.shape[1]" in why and "test_dynamic_policy.py:" in why and "is 12" in why, why


def test_marks_of_dimensions_that_are_not_there():
    for dim in (3, -3, -7):
        x = rand(3, 4)
        torch._dynamo.mark_dynamic(x, dim)
        with pytest.raises(ValueError, match=f"argument 0: dimension {dim} is marked, but it has 2 dimensions" + CALLED):
            oxytorch.compile(lambda x: x * 2)(x)


def test_marks_counted_from_the_end():
    captured = oxytorch._oxytorch.capture(lambda x: x * 2)
    for n in (3, 5, 4):
        x = rand(2, n)
        torch._dynamo.maybe_mark_dynamic(x, -1)
        assert_same(captured(x), x * 2)
    assert captured.stats()["traced"] == 1


def test_parameters_stay_constants():
    layer = nn.Linear(4, 6)
    captured = oxytorch._oxytorch.capture(layer, dynamic=True)
    with torch.no_grad():
        for n in (2, 9, 5):
            x = rand(n, 4)
            assert_same(captured(x), layer(x))
    assert captured.stats()["traced"] == 1


def test_a_mark_goes_before_dynamic_false():
    """As in torch.compile: what is said of one dimension is meant."""
    compiled = oxytorch.compile(lambda x, y: (x * 2, y * 2), dynamic=False)
    for n in (4, 5, 6, 1):
        x = torch.randn(n, 3)
        torch._dynamo.mark_dynamic(x, 0)
        assert_same(compiled(x, torch.ones(2)), (x * 2, torch.full((2,), 2.0)))
    assert compiled.stats()["traced"] == 1
    compiled(x, torch.ones(3))
    compiled(x, torch.ones(4))
    assert compiled.stats()["traced"] == 3
