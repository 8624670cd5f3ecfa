"""Hooks, anomaly mode, and gradients of results: what autograd shows of a call."""

import warnings

import compare
import pytest
import torch
import torch.nn as nn
from training import DOORS, Net, check, x, x_of

both = pytest.mark.parametrize("door", DOORS)


@both
def test_gradients_of_results_by_results(door):
    """A result on the way to another one: hooks, retain_grad and autograd.grad see the gradient that flows through it."""

    def f(t):
        hidden = (t * 2).tanh()
        out = hidden.exp()
        return hidden, out

    def outer(called, t):
        hidden, out = called(t)
        hidden.retain_grad()
        seen = []
        hidden.register_hook(lambda g: seen.append(g.clone()))
        (middle,) = torch.autograd.grad(out.sum(), hidden, retain_graph=True)
        out.sum().backward()
        return middle, hidden.grad, seen, t.grad

    called = DOORS[door](f)
    for call in range(4):
        compare.assert_same(outer(called, x_of(call)), outer(f, x_of(call)), label=f"call {call}")


@both
@pytest.mark.parametrize("computed", [False, True], ids=["", "of_what_was_computed"])
def test_hooks_on_results_change_the_gradients_behind_them(computed, door):
    """In first and later calls, whatever the results are returned in."""

    def f(t):
        first = t * 2
        second = first.exp()
        loss = (second * first).sum()
        return {"first": first, "again": first, "rest": [second, (loss,)]}

    def outer(called, leaf):
        found = called(leaf.sin() if computed else leaf)
        first, second, loss = found["first"], found["rest"][0], found["rest"][1][0]
        assert found["again"] is first
        first.register_hook(lambda g: g * 3)
        second.register_hook(lambda g: g + 1)
        second.retain_grad()
        parts = torch.autograd.grad(loss, [leaf, second, first], retain_graph=True)
        loss.backward()
        return parts, second.grad, leaf.grad

    called = DOORS[door](f)
    for call in range(4):
        compare.assert_same(outer(called, x_of(call)), outer(f, x_of(call)), label=f"call {call}")


@both
def test_hooks(door):
    seen = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, t):
            hidden = self.first(t)
            hidden.register_hook(lambda grad: grad * 2)
            return self.second(hidden.relu())

    check(Model(), x(), door=door)
    model = Model()
    model.second.register_full_backward_hook(lambda module, before, after: seen.append([g.clone() for g in before + after]))
    plain = Model()
    plain.load_state_dict(model.state_dict())
    plain.second.register_full_backward_hook(lambda module, before, after: seen.append([g.clone() for g in before + after]))
    t = torch.randn(4, 8)
    DOORS[door](model)(t).sum().backward()
    plain(t).sum().backward()
    assert len(seen) == 2
    compare.assert_same(seen[0], seen[1])


@both
@pytest.mark.parametrize("inside", [False, True], ids=["around", "inside"])
def test_anomaly_mode(door, inside):
    """Names the operation of the program's, and its line, in a call that was compiled before, too."""

    def f(t):
        return (t * 0).sqrt().sum()

    def step(t):
        with torch.autograd.detect_anomaly():
            f(t).backward()

    def watched(called):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError, match="returned nan values") as error:
                if inside:
                    called(x())
                else:
                    with torch.autograd.detect_anomaly():
                        called(x()).backward()
        return str(error.value), [str(warning.message) for warning in told]

    called = DOORS[door](step if inside else f)
    if not inside:
        called(x()).backward()
    for _ in range(2):
        (error, told), (expected, _) = watched(called), watched(step if inside else f)
        assert error == expected == "Function 'MulBackward0' returned nan values in its 0th output."
        if door == "capture" and not inside:
            assert any("return (t * 0).sqrt().sum()" in line for line in told), told


@both
def test_saved_tensor_hooks_see_what_is_saved(door):
    packed = []
    net = Net()
    called = DOORS[door](net)
    t = x()
    called(t)
    with torch.autograd.graph.saved_tensors_hooks(lambda s: packed.append(s) or len(packed) - 1, lambda n: packed[n]):
        out = called(t)
    assert packed
    out.sum().backward()
    want = torch.autograd.grad(net(t).sum(), t)[0]
    compare.assert_same(t.grad, want)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.one, self.other = nn.Linear(8, 4), nn.Linear(4, 2), nn.Linear(4, 3)

    def forward(self, t):
        h = self.trunk(t).tanh()
        return self.one(h), self.other(h)


@both
def test_hooks_that_parameters_get_behind_a_call(door):
    """They hear of the passes that come to them in eager, and of no others."""
    found = []
    for wrap in (DOORS[door], lambda model: model):
        torch.manual_seed(0)
        model, seen = Heads(), []
        called = wrap(model)
        for _ in range(2):
            one, other = called(x_of(5))
            handles = []
            for name, p in model.named_parameters():
                handles.append(p.register_hook(lambda grad, name=name: seen.append((name, None if grad is None else grad.clone())) or grad * 2))
                handles.append(p.register_post_accumulate_grad_hook(lambda p, name=name: seen.append((f"{name} behind", p.grad.clone()))))
            for loss in (one.sum(), other.sum(), other.sum() + called(x_of(6))[0].sum(), called(x_of(7))[0].sum()):
                seen.append(("pass", None))
                loss.backward(retain_graph=True)
            for handle in handles:
                handle.remove()
        passes, grads = [], [p.grad for p in model.parameters()]
        for name, grad in seen:
            passes.append([]) if name == "pass" else passes[-1].append((name, grad))
        found.append(([sorted(of, key=lambda entry: entry[0]) for of in passes], grads))
        assert all(p._backward_hooks is None or not p._backward_hooks for p in model.parameters())
    compare.assert_same(*found)
