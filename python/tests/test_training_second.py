"""Second derivatives, and many gradients at once: the call is computed once more."""

import subprocess
import sys
import threading
import warnings

import compare
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from oxytorch._training import CompiledFunction, End, Gate
from torch._C._dynamo import eval_frame
from training import BEFORE, DOORS, outcome, x_of

both = pytest.mark.parametrize("door", DOORS)


@both
def test_double_backward_91469(door):
    def f(t, w):
        return (t.tanh() * w).sin().sum()

    def penalty(called, t, w):
        (grad,) = torch.autograd.grad(called(t, w), t, create_graph=True)
        grad.square().sum().backward()
        return grad.detach(), t.grad, w.grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        called = DOORS[door](f)
        for _ in range(2):
            compare.assert_same(penalty(called, x_of(1), x_of(2)), penalty(f, x_of(1), x_of(2)))


@both
def test_second_derivatives_behind_another_pass(door):
    function = lambda a, b: ((a.sin() * a).sum(), (b.exp() * b).sum())
    results = []
    for called in (DOORS[door](function), function):
        a, b = (torch.linspace(0, 1, 5).requires_grad_() for _ in range(2))
        one, two = called(a, b)
        one.backward()
        (first,) = torch.autograd.grad(two, b, create_graph=True)
        first.sum().backward()
        results.append([a.grad, b.grad])
    compare.assert_same(*results)


def test_second_derivatives_of_inputs_that_a_graph_has_written_by_way_of_data():
    """Refused: autograd does not count it, but what is computed again would be computed of what was written."""
    function, clamp = lambda x, y: (x * x * y.sin()).sum(), DOORS["capture"](lambda y: y.data.clamp_(0, 1).sum())
    for called in (DOORS["capture"](function), function):
        x, y = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        result = called(x, y)
        clamp(y)
        assert y._version == 0
        if called is function:
            torch.autograd.grad(result, x, create_graph=True)
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                torch.autograd.grad(result, x, create_graph=True)


def test_second_derivatives_of_inputs_that_were_written():
    """Refused, whether they were computed or not; those of others go on."""
    function = lambda x, y: (x * x * y).sum()
    called = DOORS["capture"](function)
    for write in (lambda x, y: x.mul_(2), lambda x, y: y.mul_(2), lambda x, y: None):
        a, y = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        x = a * 1
        result = called(x, y)
        if write(x, y) is None:
            (first,) = torch.autograd.grad(result, a, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), a)
            compare.assert_same([first.detach(), second], [torch.full((3,), 4.0), torch.full((3,), 4.0)])
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                torch.autograd.grad(result, a, create_graph=True)


@both
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_second_derivatives_behind_a_write_to_what_no_gradient_depends_on(door):
    """What is only added up is not saved by eager, either."""

    def function(x):
        squares = x * x
        total = squares.sum()
        squares.add_(1)
        return squares, total

    found = []
    for called in (DOORS[door](function), function):
        x = torch.arange(1.0, 5, requires_grad=True)
        squares, total = called(x)
        squares.mul_(2)
        (first,) = torch.autograd.grad(total, x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        found.append([first.detach(), second])
    compare.assert_same(*found)


@both
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_second_derivatives_where_what_only_others_read_was_written(door, before):
    function = lambda x, y, count: ((x * x * x).sum(), (y.sin() * count).sum())
    found = []
    for called in (DOORS[door](function), function):
        x, y = (torch.linspace(1, 2, 3).requires_grad_() for _ in range(2))
        other, count = before(y) * 1, torch.ones(3)
        results = called(before(x), other, count)
        count.add_(1)
        other.detach().mul_(2)
        (first,) = torch.autograd.grad(results[0], x, create_graph=True)
        found.append([first.detach(), *torch.autograd.grad(first.sum(), x)])
    compare.assert_same(*found)


def scaled_before(x, buffer):
    buffer.add_(1)
    return (x * x * x * buffer).sum()


def scaled_and_counted(x, buffer):
    buffer.mul_(buffer)
    return (F.dropout(x, 0.0) * x * x * buffer).sum(), (x.sin() * buffer.cos()).sum()


def dropped_and_scaled(x, buffer):
    buffer.mul_(2)
    kept = F.dropout(torch.ones_like(x), 0.5)
    return (kept * x * x * buffer).sum()


@both
@pytest.mark.parametrize("function", [scaled_before, scaled_and_counted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_second_derivatives_of_what_the_graph_writes(door, function, before):
    """What it read was there before the call: a buffer that every call updates."""
    found = []
    for called in (DOORS[door](function), function):
        buffer = torch.full((3,), 2.0)
        for _ in range(3):
            x = torch.linspace(1, 2, 3).requires_grad_()
            result = called(before(x), buffer)
            (first,) = torch.autograd.grad(result, x, create_graph=True)
            buffer.add_(1)
            found.append([first.detach(), *torch.autograd.grad(first.sum(), x), buffer.clone()])
    compare.assert_same(found[:3], found[3:])


@both
def test_second_derivatives_of_our_own_numbers_and_what_the_graph_writes(door):
    """The mask is ours: the first derivative tells it."""
    called, buffer = DOORS[door](dropped_and_scaled), torch.full((3,), 0.5)
    for _ in range(3):
        x = torch.linspace(1, 2, 3).requires_grad_()
        (first,) = torch.autograd.grad(called(x, buffer), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        compare.assert_same(second * x.detach(), first.detach())
        compare.assert_same(first.detach()[first != 0], (4 * x * buffer).detach()[first != 0])


@both
def test_a_penalty_on_gradients_under_a_spectral_norm(door):
    """Its vectors are updated in every call, and the weights depend on them."""
    found = []
    for wrap in (DOORS[door], lambda model: model):
        torch.manual_seed(0)
        norm = torch.nn.utils.parametrizations.spectral_norm
        model = nn.Sequential(norm(nn.Linear(4, 8)), nn.Tanh(), norm(nn.Linear(8, 1)))
        called, optimizer = wrap(model), torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            x = torch.randn(5, 4, requires_grad=True)
            judged = called(x).sum()
            (slope,) = torch.autograd.grad(judged, x, create_graph=True)
            optimizer.zero_grad()
            (judged + (slope.norm(dim=1) - 1).square().mean()).backward()
            optimizer.step()
        found.append([*model.state_dict().values()])
    compare.assert_same(*found)


def batched(y, x):
    return torch.autograd.grad(y, x, torch.eye(4), is_grads_batched=True)


def batched_and_again(y, x):
    many = torch.autograd.grad(y, x, torch.eye(4), is_grads_batched=True, retain_graph=True)
    return *many, *torch.autograd.grad(y.sum(), x)


def batched_and_too_late(y, x):
    batched(y, x)
    return (outcome(lambda: torch.autograd.grad(y.sum(), x)),)


def batched_twice(y, x):
    (many,) = torch.autograd.grad(y, x, torch.eye(4), is_grads_batched=True, create_graph=True)
    return many.detach(), *torch.autograd.grad(many.square().sum(), x)


def mapped(y, x):
    return torch.vmap(lambda weight: torch.autograd.grad(y, x, weight, retain_graph=True))(torch.eye(4))


@both
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("take", [batched, batched_and_again, batched_and_too_late, batched_twice, mapped], ids=lambda f: f.__name__)
def test_many_gradients_at_once(door, take, before):
    function = lambda x: torch.sin(x) * x.sum()
    found = []
    for called in (DOORS[door](function), function):
        x = torch.linspace(0, 1, 4).requires_grad_()
        found.append(take(called(before(x)), x))
    assert [t.requires_grad for t in found[0] if torch.is_tensor(t)] == [t.requires_grad for t in found[1] if torch.is_tensor(t)]
    compare.assert_same(*found)


@both
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("function", [lambda x: (F.dropout(torch.sin(x), 0.5),), lambda x: (F.dropout(torch.sin(x), 0.5), x.cos())])
@pytest.mark.parametrize("several", [False, True])
def test_many_gradients_at_once_where_eager_cannot_compute_them(door, function, before, several):
    """It is refused, and the graph is there for another pass."""
    x, other = (torch.linspace(0, 1, 4).requires_grad_() for _ in range(2))
    called = DOORS[door](lambda x, other: (*function(x), other.exp() * other) if several else function(x))
    results = called(before(x), before(other))
    with pytest.raises(RuntimeError, match="is_grads_batched"):
        torch.autograd.grad(results[0], x, torch.eye(4), is_grads_batched=True)
    wanted = [x, other] if several else [x]
    retained = torch.autograd.grad(results, wanted, [torch.ones(4)] * len(results), retain_graph=True)
    compare.assert_same(torch.autograd.grad(results, wanted, [torch.ones(4)] * len(results)), retained)
    assert isinstance(outcome(lambda: torch.autograd.grad(results[0].sum(), x)), str)


@both
@pytest.mark.parametrize("retain", [False, True])
def test_many_gradients_that_come_late(door, retain):
    """The inputs that have theirs first are let go of with the graph; those that come late are of the same pass."""
    function = lambda a, b, c: ((torch.tanh(b @ b) * a.exp()).sum(), torch.sin(torch.tanh(b @ b) * c), (b * c).cos().sum())
    found = []
    for called in (DOORS[door](function), function):
        leaves = [torch.linspace(0, n, 16).reshape(4, 4).requires_grad_() for n in range(1, 4)]
        one, two, _ = called(*map(torch.sin, leaves))
        behind = []
        thread = threading.Thread(target=lambda: behind.append(two.square().sum()))
        thread.start()
        thread.join()
        loss, weights = one + behind[0], torch.tensor([1.0, 2.0])
        many = torch.autograd.grad(loss, leaves, weights, is_grads_batched=True, retain_graph=retain)
        found.append([*many, outcome(lambda: torch.autograd.grad(loss, leaves))])
    compare.assert_same(*found)


@both
@pytest.mark.parametrize("dynamic", [None, True])
def test_second_derivatives_of_a_part_of_memory_of_which_the_graph_writes_another(door, dynamic):
    def f(count, t, w):
        with torch.no_grad():
            count.mul_(2)
        return (t * w).sin().sum()

    def second(called):
        memory, w = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)), torch.ones(3, requires_grad=True)
        # Both count writes to one memory, but autograd knows of no view.
        (first,) = torch.autograd.grad(called(memory.detach()[:2], memory[2:], w), w, create_graph=True)
        return memory, torch.autograd.grad(first.square().sum(), w)

    called = DOORS[door](f, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            compare.assert_same(second(called), second(f))


def test_something_large_that_the_graph_reads_and_writes_is_not_copied_for_a_second_derivative():
    def f(state, w):
        y = (state.sum(0) * w).sin().sum()
        with torch.no_grad():
            state.mul_(2)
        return y

    called = DOORS["capture"](f, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows, is_kept in ((5, True), (40000, False), (6, True)):
            w = torch.ones(3, requires_grad=True)
            y = called(torch.ones(rows, 3), w)
            assert (y.grad_fn.inputs is not None) == is_kept
            ours = outcome(lambda: torch.autograd.grad(y, w, create_graph=True))
            assert isinstance(ours, tuple) if is_kept else "changes something large" in ours


def test_dynamo_compiles_nothing_of_ours_where_gradients_are_taken_inside():
    """It had compiled our own functions up to its limit, and the calls that they make: half a minute."""

    def f(t):
        (first,) = torch.autograd.grad(t.sin().exp().sum(), t, create_graph=True)
        first.square().sum().backward()
        return first

    called, codes = DOORS["dynamo"](f), [function.backward.__code__ for function in (CompiledFunction, End, Gate)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (3, 4, 5):
            ours, theirs = (torch.linspace(0, 1, rows).requires_grad_() for _ in range(2))
            compare.assert_same([called(ours).detach(), ours.grad], [f(theirs).detach(), theirs.grad])
    assert [eval_frame._debug_get_cache_entry_list(code) for code in codes] == [[], [], []]


INSIDE = """
import torch, oxytorch
from torch import nn

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @oxytorch.compile
    def forward(self, x, pair=False):
        y = self.linear(x).sin()
        return (y, y * x) if pair else y

layer, x = Layer(), torch.randn(2, 4)
called = torch.compile(layer, backend="eager", fullgraph=True)
for pair in (False, True):
    for _ in range(2):
        found = []
        for call in (called, lambda *args: Layer.forward.__wrapped__(layer, *args)):
            given = x.clone().requires_grad_()
            results = call(given, pair)
            hidden = given * 2 if pair else given
            results = call(hidden, pair)
            loss = results[0].sum() + results[1].sum() if pair else results.sum()
            found.append(torch.autograd.grad(loss, [given, layer.linear.weight]))
        assert all(map(torch.allclose, *found))
"""


def test_fullgraph_of_dynamo_around_a_compiled_method():
    """What a call of ours runs in Python is none of Dynamo's, from the first one of the process on."""
    subprocess.run([sys.executable, "-c", INSIDE], check=True, timeout=120)
