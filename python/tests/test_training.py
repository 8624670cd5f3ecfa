"""Training: gradients, hooks, modes and errors are eager's, by both front doors."""

import warnings

import compare
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import training
from training import DOORS, Doubled, check

both = pytest.mark.parametrize("door", DOORS)


def x(*shape):
    return torch.randn(*(shape or (4, 8)), requires_grad=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, t):
        return self.second(self.norm(F.gelu(self.first(t))))


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, t):
        return self.linear(self.norm(self.conv(t)).relu().mean((2, 3)))


@both
def test_a_model(door):
    check(Net(), x(), door=door)


@both
def test_running_statistics(door):
    check(Norms(), x(2, 3, 6, 6), door=door)
    check(Norms().eval(), x(2, 3, 6, 6), door=door)


@both
def test_a_loss(door):
    net = Net()

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, target):
            logits = self.net(t)
            return F.cross_entropy(logits, target), logits

    check(Loss(), x(), torch.tensor([0, 2, 1, -100]), door=door)


@both
def test_frozen_parameters_and_inputs_that_need_none(door):
    net = Net()
    net.first.requires_grad_(False)
    check(net, torch.randn(4, 8), door=door)
    net.first.requires_grad_(True)
    net.second.requires_grad_(False)
    check(net, torch.randn(4, 8), door=door)


@both
def test_requires_grad_that_changes_between_calls(door):
    net, plain = Net(), Net()
    plain.load_state_dict(net.state_dict())
    called = DOORS[door](net)
    for frozen in (False, True, False, True):
        for model in (net, plain):
            model.first.requires_grad_(not frozen)
            model.zero_grad()
        t = torch.randn(4, 8)
        called(t).sum().backward(), plain(t).sum().backward()
        assert (net.first.weight.grad is None) == frozen
        for ours, theirs in zip(net.parameters(), plain.parameters()):
            compare.assert_same(ours.grad, theirs.grad)


@both
def test_regions_without_grad(door):
    def f(t, w):
        a = t * w
        with torch.no_grad():
            b = (t * w).exp()
            c = a.sin()
        d = a * b + c
        with torch.no_grad():
            with torch.enable_grad():
                e = (d * w).tanh()
            g = e * 2
        return d + g, e, b

    check(f, x(), x(), door=door)


@both
def test_detach(door):
    def f(t, w):
        a = (t * w).detach()
        return a * w + t.detach() * (w.data + 1) * t, a

    check(f, x(), x(), door=door)


@both
def test_a_result_without_grad_that_is_made_to_need_it_in_place(door):
    def f(t, w):
        with torch.no_grad():
            a = t * w
        a.mul_(w)
        b = torch.zeros_like(a)
        b[1] = w[0] * 2
        return a + b

    check(f, x(), x(), door=door)


@both
def test_in_place_on_results_and_their_views(door):
    def f(t):
        a = t * 2
        a[0].mul_(3)
        a[:, 1:3] += t[:, :2]
        b = a.view(-1)
        b[::2].exp_()
        return a.relu(), b

    check(f, x(), door=door)


@both
def test_in_place_on_an_argument_that_was_computed(door):
    def f(t):
        t.mul_(2)
        return t * t

    def outer(called, t):
        y = t * 3
        out = called(y)
        (out.sum() + y.sum()).backward()
        return out.detach(), y.detach(), t.grad

    compare.assert_same(outer(DOORS[door](f), x_of(5)), outer(f, x_of(5)))


def copy_without_grad(t, c):
    with torch.no_grad():
        t.copy_(c)


OVERWRITTEN = {
    "copied to": lambda t, c: t.copy_(c),
    "zero": lambda t, c: t.zero_(),
    "filled": lambda t, c: t.fill_(2.0),
    "assigned to": lambda t, c: t.__setitem__(..., c),
    "in part": lambda t, c: t[1:].zero_(),
    "through a view": lambda t, c: t.t().copy_(c.t()),
    "in a list": lambda t, c: torch._foreach_zero_([t]),
    "twice": lambda t, c: t.zero_().add_(c),
    "detached": lambda t, c: t.detach().zero_(),
    "without grad": copy_without_grad,
}


@both
@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("shown", [False, True], ids=["whole", "a view"])
@pytest.mark.parametrize("how", OVERWRITTEN)
def test_a_computed_argument_is_written_with_what_needs_no_grad(door, how, shown, returned):
    """Behind the call no gradient flows to what the argument was before."""

    def f(t, c):
        OVERWRITTEN[how](t, c)
        return t * 2 if returned else c * 2

    def outer(called):
        t, c = x_of(5), torch.ones(4, 8)
        base = t * 3
        y = base[:] if shown else base
        out = called(y, c)
        flags = [(of.requires_grad, of.is_leaf) for of in (out, y, base)]
        loss = (out * c).sum() + (y * y).sum() + base.sum()
        if loss.requires_grad:
            loss.backward()
        return flags, out.detach(), y.detach(), base.detach(), t.grad

    called = DOORS[door](f)
    for _ in range(3):
        compare.assert_same(outer(called), outer(f))


def x_of(seed):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@both
def test_in_place_on_a_leaf_is_refused_in_eagers_words(door):
    def f(t):
        return t.mul_(2)

    called = DOORS[door](f)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            called(x())


@both
def test_results_that_are_views_of_arguments(door):
    def f(t):
        return t.view(-1), t[1:], t.detach().view(-1), t

    def outer(called, t):
        y = t * 1
        flat, rows, cut, whole = called(y)
        assert whole is y and flat._base is not None
        flat.mul_(2)
        (rows * 3 + y[1:]).sum().backward()
        assert not cut.requires_grad
        return rows.detach(), cut, t.grad

    compare.assert_same(outer(DOORS[door](f), x_of(2)), outer(f, x_of(2)))


@both
def test_results_that_share_memory(door):
    def f(t):
        y = t * 2
        return y, y[1], y.view(-1)[2:5], y.detach()

    def outer(called, t):
        y, row, part, cut = called(t)
        row.mul_(5)
        with torch.no_grad():
            cut[3].add_(1)
        (y.exp().sum() + part.sum()).backward()
        return y.detach(), row.detach(), part.detach(), t.grad

    for call in (outer,):
        try:
            want = call(f, x_of(3))
        except RuntimeError as error:
            with pytest.raises(RuntimeError):
                call(DOORS[door](f), x_of(3))
            assert "modified by an inplace operation" in str(error)
        else:
            compare.assert_same(call(DOORS[door](f), x_of(3)), want)


@both
def test_parts_of_one_result(door):
    def f(t):
        a, b = (t * 2).chunk(2, dim=1)
        y = t.exp()
        return a, b, y[0], y[2:]

    check(f, x(), door=door)


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
def test_results_that_are_one_tensor(door):
    """Calls that give their argument back: a hook on one of the results is a hook on all."""

    def f(t):
        y = t.contiguous() * 2
        z = y.contiguous().to(torch.float32)
        w = F.relu(z, inplace=True)
        return t.float(), y, z, w, w.flatten(1), (z * y).sum()

    def outer(called, t, hooked):
        results = called(t)
        assert results[0] is t and all(other is results[1] for other in results[2:5])
        results[hooked].register_hook(lambda g: g * 10)
        parts = torch.autograd.grad(results[-1], results[1:5], retain_graph=True)
        (results[-1] + results[5 - hooked].sum()).backward()
        return parts, results[1].detach(), t.grad

    called = DOORS[door](f)
    for hooked in (1, 2, 3, 4):
        compare.assert_same(outer(called, x_of(hooked), hooked), outer(f, x_of(hooked), hooked), label=f"hook on {hooked}")


@both
def test_a_result_that_no_gradient_reaches(door):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 2), nn.Linear(8, 2)

        def forward(self, t):
            return self.a(t), self.b(t)

    model = Two()
    one, _ = DOORS[door](model)(x())
    one.sum().backward()
    assert model.a.weight.grad is not None
    assert model.b.weight.grad is None and model.b.bias.grad is None


@both
def test_two_backwards_and_retained_graphs(door):
    net = Net()
    called = DOORS[door](net)
    t = x()
    out = called(t)
    out.sum().backward(retain_graph=True)
    first = net.first.weight.grad.clone()
    out.sum().backward()
    compare.assert_same(net.first.weight.grad, first * 2)
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()


@both
def test_two_calls_before_a_backward(door):
    net, plain = Norms(), Norms()
    plain.load_state_dict(net.state_dict())
    a, b = torch.randn(2, 3, 6, 6), torch.randn(2, 3, 6, 6)
    for model, called in ((net, DOORS[door](net)), (plain, plain)):
        (called(a) * called(b)).sum().backward()
    compare.assert_same([p.grad for p in net.parameters()], [p.grad for p in plain.parameters()], strides=False)
    compare.assert_same(dict(net.named_buffers()), dict(plain.named_buffers()))


@both
def test_accumulated_gradients(door):
    net, plain = Net(), Net()
    plain.load_state_dict(net.state_dict())
    called = DOORS[door](net)
    for _ in range(3):
        t = torch.randn(4, 8)
        called(t).sum().backward(), plain(t).sum().backward()
    for ours, theirs in zip(net.parameters(), plain.parameters()):
        compare.assert_same(ours.grad, theirs.grad)


@both
def test_a_loss_that_is_no_scalar(door):
    out = DOORS[door](Net())(x())
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        out.backward()


@both
def test_a_parameter_changed_in_place_before_the_backward(door):
    net = Net()
    out = DOORS[door](net)(x())
    with torch.no_grad():
        net.second.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@both
def test_a_loss_that_is_no_number(door):
    net, plain = Net(), Net()
    plain.load_state_dict(net.state_dict())
    t = torch.randn(4, 8)
    t[1, 2] = float("nan")
    for model, called in ((net, DOORS[door](net)), (plain, plain)):
        called(t).sum().backward()
    compare.assert_same([p.grad for p in net.parameters()], [p.grad for p in plain.parameters()])


@both
def test_a_shape_that_changes_in_the_last_batch(door):
    net, plain = Norms(), Norms()
    plain.load_state_dict(net.state_dict())
    called = DOORS[door](net)
    for batch in (4, 4, 3, 4, 3, 1):
        t = torch.randn(batch, 3, 6, 6)
        for model, call in ((net, called), (plain, plain)):
            model.zero_grad()
            call(t).square().mean().backward()
        exact = [p.grad.double() for p in plain.parameters()]
        for ours, theirs, wide in zip(net.parameters(), plain.parameters(), exact):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


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
def test_a_function_of_the_users_own(door):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, t):
            return Doubled.apply(self.linear(t).relu()).sigmoid()

    check(Model(), x(), door=door)


@both
def test_in_place_around_a_function_of_the_users_own_154820(door):
    def f(t):
        a = t * 2
        a.add_(1)
        b = Doubled.apply(a)
        b.mul_(3)
        c = Doubled.apply(b)
        return c.sub_(a)

    check(f, x(), door=door)


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
def test_backward_inside(door):
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, t):
            loss = self.net(t).square().mean()
            loss.backward()
            return loss.detach() * 2

    step, plain = Step(), Step()
    plain.load_state_dict(step.state_dict())
    called = DOORS[door](step)
    for _ in range(3):
        t = torch.randn(4, 8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare.assert_same(called(t), plain(t))
        for ours, theirs in zip(step.parameters(), plain.parameters()):
            assert (ours.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad)


@both
def test_gradients_inside(door):
    def f(t):
        y = (t * t).sin()
        (grad,) = torch.autograd.grad(y.sum(), t, create_graph=True)
        return grad.square().sum() + y.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(f, x(), door=door)


@both
def test_anomaly_mode(door):
    def f(t):
        return (t * 0).sqrt().sum()

    called = DOORS[door](f)
    with warnings.catch_warnings(), torch.autograd.detect_anomaly():
        warnings.simplefilter("ignore")
        loss = called(x())
        with pytest.raises(RuntimeError, match="returned nan values"):
            loss.backward()


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


@both
def test_dropout_differs_between_steps_and_repeats_under_a_seed(door):
    model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.Linear(64, 4))
    called = DOORS[door](model)
    t = torch.randn(4, 8)

    def step(seed):
        if seed is not None:
            torch.manual_seed(seed)
        model.zero_grad()
        out = called(t)
        out.sum().backward()
        return out.detach(), model[0].weight.grad.clone()

    first, again, other = step(1), step(1), step(None)
    compare.assert_same(first, again)
    assert not torch.equal(first[0], other[0])
    # The same mask in both directions: what was dropped gets no gradient.
    rows = first[1].abs().sum(1) == 0
    assert not rows.all()


def gradients_under_autocast(model, called, t, dtype, scaler=None):
    model.zero_grad()
    with torch.autocast("cpu", dtype=dtype):
        out = called(t)
        loss = F.mse_loss(out.float(), torch.zeros_like(out, dtype=torch.float32))
    (scaler.scale(loss) if scaler else loss).backward()
    return out.detach(), [p.grad for p in model.parameters() if p.grad is not None]


@both
@pytest.mark.parametrize("kind", [Net, Norms])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_around_a_step_179804(door, kind, dtype):
    model, plain = kind(), kind()
    plain.load_state_dict(model.state_dict())
    called = DOORS[door](model)
    t = torch.randn(4, 8) if kind is Net else torch.randn(2, 3, 6, 6)
    for _ in range(2):
        got, want = gradients_under_autocast(model, called, t, dtype), gradients_under_autocast(plain, plain, t, dtype)
        assert got[0].dtype == want[0].dtype == dtype
        for ours, theirs in zip(got[1], want[1]):
            assert ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 * theirs.abs().max().item() + 1e-6)
    # Without it again: what autocast did must not stay.
    compare.assert_same(called(t).detach(), plain(t).detach())
    assert called(t).dtype == torch.float32


@both
def test_autocast_inside_of_a_step(door):
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, t):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = self.net(t)
                with torch.autocast("cpu", enabled=False):
                    other = self.net(t)
            return hidden.float() + other * 2

    model, plain = Inside(), Inside()
    plain.load_state_dict(model.state_dict())
    called = DOORS[door](model)
    t = torch.randn(4, 8)
    for _ in range(3):
        outs = []
        for this, call in ((model, called), (plain, plain)):
            this.zero_grad()
            outs.append(call(t))
            outs[-1].sum().backward()
        torch.testing.assert_close(outs[0], outs[1], rtol=2e-2, atol=2e-2)
        for ours, theirs in zip(model.parameters(), plain.parameters()):
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=2e-2, atol=2e-2 * theirs.grad.abs().max().item())
        assert not torch.is_autocast_enabled("cpu")


@both
def test_a_gradient_scaler(door):
    model, plain = Net(), Net()
    plain.load_state_dict(model.state_dict())
    called = DOORS[door](model)
    runs = [(this, call, torch.optim.SGD(this.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=64.0)) for this, call in ((model, called), (plain, plain))]
    for step in range(4):
        t = torch.randn(4, 8)
        if step == 2:
            t[0, 0] = float("inf")  # the step is left out and the scale halved
        for this, call, optimizer, scaler in runs:
            gradients_under_autocast(this, call, t, torch.bfloat16, scaler)
            scaler.step(optimizer)
            scaler.update()
    assert runs[0][3].get_scale() == runs[1][3].get_scale() == 32.0
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-3)


@both
@pytest.mark.parametrize("reentrant", [False, True], ids=["saved", "reentrant"])
def test_checkpoints_inside(door, reentrant):
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 8)

        def inner(self, t):
            return self.second(F.gelu(self.first(t)))

        def forward(self, t):
            return t + checkpoint(self.inner, t, use_reentrant=reentrant)

    check(nn.Sequential(Block(), nn.LayerNorm(8), Block()), x(), door=door)


@both
def test_checkpoints_around(door):
    from torch.utils.checkpoint import checkpoint

    blocks = [Net() for _ in range(2)]
    called = [DOORS[door](block) for block in blocks]
    t = x()

    def step(calls):
        t.grad = None
        for block in blocks:
            block.zero_grad()
        sum(checkpoint(call, t, use_reentrant=False) for call in calls).sum().backward()
        return [t.grad.clone()] + [p.grad.clone() for block in blocks for p in block.parameters() if p.grad is not None]

    for _ in range(2):
        compare.assert_same(step(called), step(blocks))


@both
def test_what_a_checkpoint_around_saves(door):
    """Nothing of what is inside stays alive until the backward pass."""
    from torch.utils.checkpoint import checkpoint

    net = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 8))
    called = DOORS[door](net)
    t = x()
    called(t)
    out = checkpoint(called, t, use_reentrant=False)
    stack, seen, held = [out.grad_fn], set(), 0
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        held += sum(1 for name in dir(node) if name in ("inputs", "saved_intermediates") and getattr(node, name) is not None)
        stack += [parent for parent, _ in node.next_functions]
    assert held == 0
    out.sum().backward()
