"""What a call holds is gone with the pass that alone needs it, and with its results."""

import gc
import weakref

import pytest
import torch
from training import BEFORE, DOORS, outcome

both = pytest.mark.parametrize("door", DOORS)


class Watched(torch.autograd.graph.saved_tensors_hooks):
    """Which saved tensors, other than the leaves, are still there."""

    def __init__(self):
        self.seen = []
        super().__init__(self.pack, lambda tensor: tensor)

    def pack(self, tensor):
        # An object of its own: a result of the call would live as long as the program holds it.
        tensor = tensor if tensor.is_leaf and tensor.requires_grad else tensor.detach()
        self.seen.append(weakref.ref(tensor))
        return tensor

    def bytes(self):
        there = {t.data_ptr(): t.numel() * t.element_size() for t in (ref() for ref in self.seen) if t is not None and not t.requires_grad}
        return sum(there.values())


def two_chains(a, b):
    return torch.tanh(torch.tanh(a @ a) @ a).sum(), torch.tanh(torch.tanh(b @ b) @ b).sum()


def two_heads(a, b):
    h = torch.tanh(torch.tanh(a @ a) @ a)
    return torch.tanh(h @ a).sum(), torch.tanh(torch.tanh(h @ b) @ b).sum()


@both
@pytest.mark.parametrize("function", [two_chains, two_heads], ids=lambda f: f.__name__)
def test_a_pass_lets_go_of_what_it_alone_needs(function, door):
    """And eager of no more: behind the call, one pass and the other."""

    def levels(called):
        a, b = torch.randn(32, 32, requires_grad=True), torch.randn(32, 32, requires_grad=True)
        watched = Watched()
        with watched:
            one, two = called(a, b)
        found = [watched.bytes()]
        for loss in (one, two):
            outcome(loss.backward)
            found.append(watched.bytes())
        return found

    called = DOORS[door](function)
    for _ in range(2):
        ours, theirs = levels(called), levels(function)
        assert 0 < ours[1] < ours[0] and ours[2] == 0, ours
        assert all(one <= other for one, other in zip(ours, theirs)), (ours, theirs)


@both
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_a_call_is_gone_when_its_results_are(door, before):
    """What is kept for a pass that never comes holds nothing in turn."""
    function = lambda a, b: (torch.tanh(a).sum(), torch.tanh(b @ b))
    called = DOORS[door](function)
    a, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    one, two = called(before(a), before(b))
    one.backward()
    seen = weakref.ref(two.grad_fn)
    gc.disable()
    try:
        del one, two
        assert seen() is None
    finally:
        gc.enable()


# Of a call, its results and its inputs.
WRITES = {
    "no pass": lambda results, x, y: x.add_(results[1].sum()),
    "of the other result": lambda results, x, y: results[0].sum().backward(retain_graph=True) or x.mul_(results[1].sum()),
    "behind a pass": lambda results, x, y: results[0].sum().backward() or y.add_(results[1]),
    "without gradient": lambda results, x, y: y.detach().add_(results[1]),
}


@both
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("plain", [False, True])
def test_a_call_is_gone_though_its_results_were_written_to_its_inputs(door, write, plain):
    """The input's history holds the call from then on, and the call must not hold the input in turn."""
    called = DOORS[door](lambda x, y, buffer: ((x + 1).sum() * 2, y * 2 + buffer))

    class Mark:
        pass

    gc.disable()
    try:
        for _ in range(2):
            a, b, buffer, mark = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), torch.ones(3), Mark()
            x, y = a * 1, b * 1
            results = called(x, y, buffer)
            results[1].grad_fn.metadata["mark"] = mark
            write(results, x, y)
            if plain:
                buffer.add_(results[1])
            seen = weakref.ref(mark)
            del a, b, buffer, mark, x, y, results
            assert seen() is None
    finally:
        gc.enable()
