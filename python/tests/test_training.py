"""Training: gradients, modes and errors are eager's, by both front doors."""

import warnings

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from training import DOORS, Doubled, Net, Norms, check, x

both = pytest.mark.parametrize("door", DOORS)


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
@pytest.mark.parametrize("made_by, create_graph", [(lambda w: w, False), (lambda w: w, True), (lambda w: w * 1, False)])
def test_what_was_changed_in_place_is_named_in_torchs_words(door, made_by, create_graph):
    def f(t, w):
        return (t * w).sin().sum()

    def error(called):
        t = x()
        w = made_by(torch.full((4, 8), 2.0, requires_grad=True))
        loss = called(t, w)
        with torch.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError) as error:
            torch.autograd.grad(loss, t, create_graph=create_graph)
        return str(error.value)

    assert error(DOORS[door](f)) == error(f)


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
def test_a_function_of_the_users_own(door):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, t):
            return Doubled.apply(self.linear(t).relu()).sigmoid()

    check(Model(), x(), door=door)


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


def test_a_function_of_torchscript_is_differentiated_by_torch():
    @torch.jit.script
    def powers(x, n: int):
        for i in range(n):
            x = x.sin() + i
        return x

    plain, given = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    (powers(plain * 2, 3) + 1).sum().backward()
    compiled = oxytorch.compile(lambda x: powers(x * 2, 3) + 1)
    with pytest.warns(UserWarning, match="ScriptFunction"):
        compiled(given).sum().backward()
    assert torch.allclose(given.grad, plain.grad)
