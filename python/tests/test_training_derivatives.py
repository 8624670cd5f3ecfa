"""Derivatives that compiled gradients do not give by themselves: second ones, and forward ones."""

import warnings

import compare
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn as nn
from training import DOORS

both = pytest.mark.parametrize("door", DOORS)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def t_of(seed, *shape):
    return torch.randn(*(shape or (4, 8)), generator=torch.Generator().manual_seed(seed))


@both
def test_a_second_derivative_of_a_call_without_grad_of_which_a_part_has_it(door):
    def f(t):
        constant = t * t
        with torch.enable_grad():
            return (constant * t).sin()

    def derivatives(called):
        t = t_of(1).requires_grad_()
        with torch.no_grad():
            result = called(t)
        (first,) = torch.autograd.grad(result.sum(), t, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), t)
        return first.detach(), second

    compare.assert_same(derivatives(DOORS[door](f)), derivatives(f))


@both
def test_a_second_derivative_under_autocast(door):
    torch.manual_seed(0)
    linear = nn.Linear(8, 8)

    def f(t):
        return linear(t).tanh()

    def derivatives(called):
        linear.zero_grad()
        t = t_of(1).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            result = called(t)
        (first,) = torch.autograd.grad(result.float().sum(), t, create_graph=True)
        first.square().sum().backward()
        return first.detach(), linear.weight.grad.clone()

    for ours, theirs in zip(derivatives(DOORS[door](f)), derivatives(f)):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@both
def test_tensors_of_inference_mode_beside_one_that_requires_grad(door):
    with torch.inference_mode():
        constant = t_of(2)

    def derivatives(called):
        t = t_of(1).requires_grad_()
        (first,) = torch.autograd.grad((called(t, constant)).sum(), t, create_graph=True)
        first.sum().backward()
        return first.detach(), t.grad

    def f(t, c):
        return t.sin() + c

    compare.assert_same(derivatives(DOORS[door](f)), derivatives(f))


@both
@pytest.mark.parametrize("trained", [False, True])
def test_forward_derivatives(door, trained):
    weight = nn.Parameter(t_of(2), requires_grad=trained)

    def f(t):
        return t.sin() * weight

    called, t = DOORS[door](f), t_of(1)
    called(t)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(t, t_of(3))
        ours, theirs = (forward_ad.unpack_dual(function(dual)).tangent for function in (called, f))
        assert ours is not None
        compare.assert_same(ours.detach(), theirs.detach())
    compare.assert_same(called(t).detach(), f(t).detach())


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(t_of(2, 8, 8))

    def forward(self, t):
        return (t @ self.weight).tanh()


def test_a_second_derivative_of_parameters_that_are_constants_of_the_graph_is_refused():
    model = Product()
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        result = DOORS["dynamo"](model)(t_of(1).requires_grad_())
    with pytest.raises(RuntimeError, match="second derivative"):
        result.sum().backward(create_graph=True)
    result.sum().backward()
    assert model.weight.grad is not None
