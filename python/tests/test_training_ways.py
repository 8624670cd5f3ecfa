"""How eager's graph of a call is found out, for passes that go through parts of it: nobody sees it."""

import subprocess
import sys

import compare
import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from training import DOORS

both = pytest.mark.parametrize("door", DOORS)


class Dispatched(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Called(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


@both
def test_nobody_sees_how_the_ways_of_eager_are_found(door):
    """Hooks and modes of the program's are there during the first pass through a part; they come back behind it."""
    function = lambda a, b: (torch.tanh(a @ a).sum(), torch.sin(b @ b).sum())
    a, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    one, two = DOORS[door](function)(a, b)
    packed, ops, calls = [], Dispatched(), Called()
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t)
    with hooks, ops, calls:
        one.backward()
        assert not packed
        assert not [op for op in ops.seen if "tanh" in op or "sin" in op or "empty" in op or "zeros" in op], ops.seen
        assert calls.seen == ["backward"]
        (a * b).sum()
        assert len(packed) == 2 and ops.seen[-1] == "aten.sum.default" and calls.seen[-1] == "sum"
    two.backward()


@both
def test_ways_of_eager_where_hooks_are_forbidden(door):
    function = lambda a, b: (torch.tanh(a @ a).sum(), torch.sin(b @ b).sum())
    a, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    one, two = DOORS[door](function)(a, b)
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        one.backward()
    two.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        one.backward()


def test_a_pass_through_a_part_loads_no_compiler_of_torch():
    program = """
import sys, torch, oxytorch
function = oxytorch.compile(lambda a, b, n: (torch.tanh(a @ a).sum(), torch.sin(b @ b)[n].sum()))
for _ in range(2):
    a, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    one, two = function(a, b, torch.tensor([0, 3]))
    one.backward()
    two.backward()
    assert a.grad is not None and b.grad is not None
    assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@both
def test_ways_of_eager_where_inputs_are_not_kept(door):
    """Hooks that move what is saved elsewhere: eager's graph is built of zeros."""

    def function(a, b, n):
        return torch.tanh(a @ a).sum(), F.embedding(n, b).exp().sum()

    found = []
    for called in (DOORS[door](function), function):
        a, b = (torch.linspace(0, 1, 16).reshape(4, 4).requires_grad_() for _ in range(2))
        with torch.autograd.graph.save_on_cpu():
            one, two = called(a, b, torch.tensor([0, 3]))
        one.backward()
        two.backward()
        found.append([a.grad, b.grad])
        with pytest.raises(RuntimeError, match="a second time"):
            two.backward()
    compare.assert_same(*found)
