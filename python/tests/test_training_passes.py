"""Several backward passes through one call: each goes where eager's goes, and raises where eager's comes to what an earlier one has let go of."""

import copy
import threading

import compare
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from training import BEFORE, DOORS, outcome

both = pytest.mark.parametrize("door", DOORS)


def apart(a, b, c):
    return torch.sin(a @ b).sum(), (c.exp() * c).sum()


def by_a_parameter(a, b, c):
    return torch.sin(a @ c).sum(), torch.cos(b @ c).sum()


def trunk(a, b, c):
    h = torch.tanh(a @ b)
    return (h * c).sum(), (h @ c).sum()


def linear_trunk(a, b, c):
    """Nothing is saved where the two meet, but both save the sum."""
    h = a + b
    return h.sin().sum(), (h.cos() * c).sum()


def scaled_trunk(a, b, c):
    """A factor that is a number is saved, too."""
    h = a * 2
    return h.sin().sum(), (h.cos() * c).sum()


def adversaries(a, b, c):
    """The losses of two networks, of which one judges the other's work."""
    made = torch.tanh(a @ b)
    real, fake = torch.sigmoid(a @ c), torch.sigmoid(made.detach() @ c)
    return -(torch.log(real) + torch.log(1 - fake)).mean(), -torch.log(torch.sigmoid(made @ c)).mean()


def nothing_saved(a, b, c):
    return (a + b).sum(), (b - c).mean()


def one_result(a, b, c):
    return ((a.sin().sum() + b.cos().sum() - c.sum()),)


def result_of_another(a, b, c):
    h = torch.tanh(a @ b)
    return h, (h * c).sum()


def written(a, b, c):
    h = a * b
    h[0].mul_(2)
    return h.sum(), (h + c).sum(), c.exp().sum()


def parts(a, b, c):
    one, two = torch.sigmoid(a + b).chunk(2)
    return (one * 2).sum(), two.sum(), c.cumsum(0).sum()


def checkpointed(a, b, c):
    one, two = checkpoint(lambda a, b, c: (torch.sin(a @ b).sum(), (c.exp() * c).sum()), a, b, c, use_reentrant=False)
    return one, two


def normed(a, b, c):
    h = F.layer_norm(a, (4,))
    return (h * b).sum(), F.cross_entropy(c, torch.tensor([0, 1, 2, 3])), F.dropout(c, 0.0).sum()


FUNCTIONS = [apart, by_a_parameter, trunk, linear_trunk, scaled_trunk, adversaries, nothing_saved, one_result]

FUNCTIONS += [result_of_another, written, parts, checkpointed, normed]

# Which result, which inputs (None: all), whether the graph is retained.
PASSES = {
    "one by one": [(0, None, False), (1, None, False), (2, None, False)],
    "backwards": [(2, None, False), (1, None, False), (0, None, False)],
    "twice": [(0, None, False), (0, None, False), (1, None, False)],
    "retained": [(0, None, True), (1, None, True), (0, None, False), (1, None, False), (0, None, False)],
    "input by input": [(0, 0, False), (0, 1, False), (0, 2, False), (1, 0, False), (1, 1, False), (1, 2, False)],
    "other inputs": [(1, 2, False), (1, 1, False), (1, 0, False), (0, 2, False), (0, 1, False), (0, 0, False)],
    "inputs of each": [(0, 0, False), (1, 2, False), (0, 1, False), (1, 1, False)],
    "some": [(1, 2, False), (0, 0, False), (1, None, False), (0, None, False)],
    "all and one": [("all", None, False), (0, None, False), (1, None, False)],
    "one and all": [(0, None, False), ("all", None, False), (1, None, False)],
}


def gradients(function, inputs, passes, before=lambda t: t):
    """Of each pass what it gave, or what was raised."""
    results = function(*map(before, inputs))
    found = []
    for result, asked, retain in passes:
        if result == "all":
            of, weights = list(results), [torch.ones_like(r) for r in results]
        elif result < len(results):
            of, weights = [results[result]], [torch.ones_like(results[result])]
        else:
            continue
        asked = inputs if asked is None else [inputs[asked]]
        found.append(outcome(lambda: torch.autograd.grad(of, asked, weights, retain_graph=retain, allow_unused=True)))
    return found


@both
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_passes_as_in_eager(function, passes, before, door):
    passes = PASSES[passes]
    inputs = [torch.randn(4, 4, requires_grad=True) for _ in range(3)]
    want = gradients(function, inputs, passes, before)
    called = DOORS[door](function)
    for _ in range(2):
        got = gradients(called, inputs, passes, before)
        assert [isinstance(g, str) for g in got] == [isinstance(w, str) for w in want], (got, want)
        for one, other in zip(got, want):
            if isinstance(other, str):
                assert one == other
            else:
                compare.assert_same([g for g in one if g is not None], [g for g in other if g is not None], strides=False)
                assert [g is None for g in one] == [g is None for g in other]


def test_both_kinds_of_outcome_are_among_them():
    kinds = set()
    for passes in PASSES.values():
        for function in FUNCTIONS:
            inputs = [torch.randn(4, 4, requires_grad=True) for _ in range(3)]
            kinds |= {(n > 0, isinstance(g, str)) for n, g in enumerate(gradients(function, inputs, passes))}
    assert {(True, True), (True, False)} <= kinds


@both
@pytest.mark.parametrize("retain", [False, True])
def test_heads_over_a_shared_trunk(door, retain):
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 3)

        def forward(self, x):
            h = torch.relu(self.trunk(x))
            return self.one(h).square().mean(), self.two(h).exp().mean()

    model, plain, x = Heads(), Heads(), torch.randn(5, 4)
    plain.load_state_dict(model.state_dict())
    for net, called in ((model, DOORS[door](model)), (plain, plain)):
        one, two = called(x)
        one.backward(retain_graph=retain)
        if retain:
            two.backward()
        else:
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                two.backward()
    for p, q in zip(model.parameters(), plain.parameters()):
        # Eager has gone as far as the trunk when it raises; what it added before is no use to anybody.
        if retain or q.grad is not None and p.grad is not None:
            compare.assert_same(p.grad, q.grad)


@both
def test_steps_of_two_networks(door):
    """Both losses come of one call; one optimizer steps before the other's backward pass, on parameters that it does not need."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return torch.tanh(self.a(x)).square().mean(), torch.tanh(self.b(x)).exp().mean()

    model, plain, x = Two(), Two(), torch.randn(5, 4)
    plain.load_state_dict(model.state_dict())
    for net, called in ((model, DOORS[door](model)), (plain, plain)):
        steps = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (net.a, net.b)]
        for _ in range(4):
            for loss, step in zip(called(x), steps):
                step.zero_grad()
                loss.backward()
                step.step()
    compare.assert_same(dict(model.state_dict()), dict(plain.state_dict()))


@both
def test_a_network_in_eager_behind_one_of_two_losses(door):
    """Its graph is gone when a pass has come to it: that of the first loss does not, since what it judges is detached."""

    class Losses(nn.Module):
        def __init__(self):
            super().__init__()
            self.judge = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))

        def forward(self, real, made):
            judged = lambda t: torch.sigmoid(self.judge(t)).log().mean()
            return -judged(real) + judged(made.detach()), -judged(made)

    maker, losses = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), Losses()
    states, called = [copy.deepcopy((maker, losses)) for _ in range(2)], []
    for (maker, losses), wrap in zip(states, (DOORS[door], lambda f: f)):
        function = wrap(losses)
        for step in range(3):
            torch.manual_seed(step)
            first, second = function(torch.randn(5, 4), maker(torch.randn(5, 3)))
            first.backward(retain_graph=step == 2)
            second.backward()
        called.append([p.grad for p in (*maker.parameters(), *losses.parameters())])
    compare.assert_same(*called)


@both
def test_parts_of_a_call_in_one_pass(door):
    """Groups of results that have nothing in common, of what eager computed, together; hooks, and gradients of gradients."""
    function = lambda a, b, c: (torch.sin(a @ a) * 2, b.exp().tanh(), c.sin().sum(), (b * b).sum())
    found = []
    for called in (DOORS[door](function), function):
        a, b, c = (torch.linspace(0, 1, 9).reshape(3, 3).requires_grad_() for _ in range(3))
        seen = []
        results = called(a.exp(), b.exp(), c.exp())
        results[1].register_hook(lambda g: seen.append(g.clone()) or g * 3)
        sum(r.sum() for r in results).backward()
        again = called(a.exp(), b.exp(), c.exp())
        firsts = torch.autograd.grad(again[0].sum() + again[2], (a, c), create_graph=True)
        seconds = torch.autograd.grad(sum(g.sum() for g in firsts), (a, c))
        found.append([a.grad, b.grad, c.grad, *seen, *[g.detach() for g in firsts], *seconds])
    compare.assert_same(*found)


@both
@pytest.mark.parametrize("which", [0, 1])
def test_what_was_written_between_two_passes(door, which):
    """A pass raises for what it needs, and not for what only the other one needed."""

    def raised(called):
        a, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        one, two = called(a, b)
        one.backward()
        with torch.no_grad():
            (a, b)[which].add_(1)
        return outcome(two.backward)

    function = lambda a, b: ((a @ a).sum(), (b @ b).sum())
    got, want = raised(DOORS[door](function)), raised(function)
    assert (got is None) == (want is None) == (which == 0)
    if want is not None:
        text = "one of the variables needed for gradient computation has been modified by an inplace operation"
        assert got.startswith(text) and want.startswith(text)


@both
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("write", [lambda a, b, two: two.mul_(2), lambda a, b, two: two.view(-1).mul_(2), lambda a, b, two: b.mul_(2), lambda a, b, two: a.mul_(2)])
def test_what_was_written_before_the_first_pass(door, write, before):
    """Results and inputs: a pass raises for what it needs, and not for what others need, together or one after the other."""
    function = lambda a, b: (torch.sin(a @ a).sum(), torch.tanh(b @ b))

    def found(called, together):
        leaves = [torch.linspace(0, 1, 16).reshape(4, 4).requires_grad_() for _ in range(2)]
        a, b = map(before, leaves)
        one, two = called(a, b)
        with torch.no_grad():
            write(a, b, two)
        passes = [one + two.sum()] if together else [one, two.sum()]
        return [(outcome(loss.backward) or "fine")[:60] for loss in passes] + [leaf.grad for leaf in leaves]

    called = DOORS[door](function)
    for together in (False, True):
        got, want = found(called, together), found(function, together)
        assert got[:-2] == want[:-2]
        if "one of" not in str(want[:-2]):
            compare.assert_same(got[-2:], want[-2:])
        elif not together:
            compare.assert_same([g for g in got[-2:] if g is not None], [g for g in want[-2:] if g is not None])


@both
def test_what_nobody_asked_for_is_not_multiplied_by_zero(door):
    """The other result's gradient is infinite."""
    function = lambda x: (x.sin().sum(), (1 / x).sum(), x.log().exp())
    called = DOORS[door](function)
    for n in range(2):
        x, y = (torch.tensor([0.0, 1.0, 2.0], requires_grad=True) for _ in range(2))
        called(x)[n].sum().backward()
        function(y)[n].sum().backward()
        compare.assert_same(x.grad, y.grad)


@both
def test_many_passes_through_one_call(door):
    """Each through another result: more than there are programs for parts of most calls. What is infinite belongs to the others."""

    def function(xs, shared):
        ends = [(x.exp() * x).sum() for x in xs]
        return *ends, (shared * xs[0]).sum(), (1 / shared).sum(), (shared.log() * xs[1]).sum()

    called = DOORS[door](function)
    for retain in (False, True, False):
        found = []
        for wrap in (called, function):
            xs = [torch.full((2,), 0.1 * n, requires_grad=True) for n in range(70)]
            shared = torch.tensor([0.0, 2.0], requires_grad=True)
            results = wrap(xs, shared)
            raised = [outcome(lambda: result.backward(retain_graph=retain)) for result in results]
            found.append(([x.grad for x in xs], shared.grad, raised))
        compare.assert_same(*[[*grads, of_shared] for grads, of_shared, _ in found])
        assert found[0][2] == found[1][2]


HOOKED = {
    "results": lambda leaves, inputs, results: results,
    "leaves": lambda leaves, inputs, results: leaves,
    "inputs": lambda leaves, inputs, results: inputs,
    "all": lambda leaves, inputs, results: [*leaves, *inputs, *results],
}


@both
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("which", HOOKED.values(), ids=HOOKED)
@pytest.mark.parametrize("function", [trunk, apart, scaled_trunk], ids=lambda f: f.__name__)
def test_hooks_hear_of_passes_that_come_to_them(function, which, before, door):
    """They are not called with None where eager's pass goes elsewhere."""
    found = []
    for called in (DOORS[door](function), function):
        seen = []
        leaves = [torch.linspace(0, n, 16).reshape(4, 4).requires_grad_() for n in range(1, 4)]
        # Those of leaves are there before the call, as those of a model are.
        if which is HOOKED["leaves"] or which is HOOKED["all"]:
            for n, leaf in enumerate(leaves):
                leaf.register_hook(lambda g, n=n: seen.append((f"leaf {n}", g is None)))
        inputs = list(map(before, leaves))
        results = called(*inputs)
        for n, tensor in enumerate(which([], inputs if before is torch.exp else [], results)):
            tensor.register_hook(lambda g, n=n: seen.append((n, g is None)) or g * 2)
        results[1].retain_grad()
        for result in results:
            result.backward(retain_graph=True)
            seen.append("next")
        sum(results).backward()
        # Results come before inputs; among themselves they have no order.
        passes = "".join(map(str, seen)).split("next")
        found.append(([sorted(p) for p in passes], [leaf.grad for leaf in leaves], results[1].grad))
    assert found[0][0] == found[1][0]
    compare.assert_same(*[[*grads, of_result] for _, grads, of_result in found])


@both
@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_for_several_results(door, mode):
    found = []
    for called in (DOORS[door](trunk), trunk):
        seen = []
        results = called(*[torch.ones(4, 4, requires_grad=True) for _ in range(3)])
        as_list = lambda grads: grads if mode == "all" else [grads]
        torch.autograd.graph.register_multi_grad_hook(results, lambda g: seen.append([t is None for t in as_list(g)]), mode=mode)
        results[1].backward(retain_graph=True)
        results[0].backward(retain_graph=True)
        sum(results).backward()
        found.append(seen)
    assert found[0] == found[1]


@both
def test_gradients_that_come_late(door):
    """What was computed of a result in another thread comes when the inputs of the others have their gradients already."""
    function = lambda a, b, c: ((torch.tanh(b @ b) * a.exp()).sum(), torch.sin(torch.tanh(b @ b) * c), (b * c).cos().sum())
    found = []
    for called in (DOORS[door](function), function):
        a, b, c = (torch.linspace(0, n, 16).reshape(4, 4).requires_grad_() for n in range(1, 4))
        for _ in range(2):
            one, two, three = called(a.exp(), b * 2, c.sin())
            behind = []
            thread = threading.Thread(target=lambda: behind.append(two.square().sum()))
            thread.start()
            thread.join()
            (one + behind[0]).backward(retain_graph=True)
            (one + behind[0] + three).backward()
        found.append([a.grad, b.grad, c.grad, outcome(three.backward)])
    compare.assert_same(*found)


@both
def test_passes_of_several_threads_through_one_call(door):
    function = lambda a, b, c: ((torch.tanh(a @ b) * a).sum(), (torch.tanh(a @ b) * c).sum())
    found = []
    for called in (DOORS[door](function), function):
        a, b, c = (torch.linspace(0, n, 16).reshape(4, 4).requires_grad_() for n in range(1, 4))
        results = called(a.exp(), b.sin(), c.cos())
        sums = [[], [], []]

        def go(weight):
            for _ in range(20):
                loss = results[0] * weight + results[1]
                for into, grad in zip(sums, torch.autograd.grad(loss, (a, b, c), retain_graph=True)):
                    into.append((weight, grad))

        threads = [threading.Thread(target=go, args=(weight,)) for weight in (1.0, 2.0, 3.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.append([[g for _, g in sorted(of, key=lambda entry: entry[0])] for of in sums])
    compare.assert_same(*found)


@both
def test_a_pass_behind_one_that_a_hook_has_ended(door):
    """Of what had come to the first, nothing is left for the second; gradients of results can be asked for beside those of leaves."""
    function = lambda a, b, c: (torch.tanh(a @ b) * 2, (b @ c).sin())
    found = []
    for called in (DOORS[door](function), function):
        a, b, c = (torch.linspace(0, n, 16).reshape(4, 4).requires_grad_() for n in range(1, 4))
        x = c.exp()
        hook = x.register_hook(lambda grad: 1 / 0)
        results = called(a.exp(), b * 1, x)
        loss = results[0].sum() * results[1].sum()
        with pytest.raises(ZeroDivisionError):
            loss.backward(retain_graph=True)
        hook.remove()
        asked = torch.autograd.grad(loss, [results[0], a, results[1]], retain_graph=True)
        found.append([*asked, *torch.autograd.grad(results[1].sum(), [results[1], b, c])])
    compare.assert_same(*found)
