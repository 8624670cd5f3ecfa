"""What is saved of a call until its gradients are computed: a write to that raises in the backward pass, a write to anything else changes nothing. The tracer says of usual calls itself what
torch saves of them."""

import oxytorch
import pytest
import torch
import torch.nn.functional as F


def numbers(*shape):
    return torch.linspace(0.5, 2, torch.Size(shape).numel()).reshape(shape)


# Of a and b: both have 4 rows of 8 numbers.
CALLS = {
    name: lambda a, b, of=of: of(a * 1) + b * 0.5
    for name, of in dict(
        relu=F.relu, relu6=F.relu6, gelu=F.gelu, silu=F.silu, mish=F.mish, elu=F.elu, leaky_relu=F.leaky_relu, hardswish=F.hardswish, hardsigmoid=F.hardsigmoid, softplus=F.softplus,
        sigmoid=torch.sigmoid, tanh=torch.tanh, exp=torch.exp, sqrt=torch.sqrt, rsqrt=torch.rsqrt, neg=torch.neg, abs=torch.abs, sin=torch.sin, cos=torch.cos,
    ).items()
}
CALLS |= {name + " of an argument": lambda a, b, of=of: of(a) + b for name, of in dict(relu=F.relu, gelu=F.gelu, sigmoid=torch.sigmoid, sqrt=torch.sqrt, abs=torch.abs).items()}
CALLS |= {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mul by itself": lambda a, b: a * a + b,
    "mul by a number": lambda a, b: a * 3 + 2 * b,
    "div by a number": lambda a, b: a / 3 + b,
    "number / tensor": lambda a, b: 3 / a + b,
    "number - tensor": lambda a, b: 3 - a + b,
    "mul without grad": lambda a, b: a * b.detach(),
    "div without grad": lambda a, b: a / b.detach(),
    "div of what has none": lambda a, b: a.detach() / b,
    "clamp": lambda a, b: a.clamp(0.7, 1.5) + b,
    "pow": lambda a, b: a**2 + b,
    "number ** tensor": lambda a, b: 2.0**a + b,
    "linear": lambda a, b: F.linear(a, b),
    "linear with a bias": lambda a, b: F.linear(a, b, b[:, 0]),
    "linear of three": lambda a, b: F.linear(a.view(2, 2, 8), b, torch.ones(4)),
    "linear of another order": lambda a, b: F.linear(a.view(2, 2, 8).transpose(0, 1), b, torch.ones(4)),
    "linear of a fixed weight": lambda a, b: F.linear(a, b.detach()),
    "conv2d": lambda a, b: F.conv2d(a.view(1, 2, 4, 4), b.view(4, 2, 2, 2), b[:, 0].detach()),
    "conv2d of a fixed weight": lambda a, b: F.conv2d(a.view(1, 2, 4, 4), b.detach().view(4, 2, 2, 2)),
    "conv2d of what has none": lambda a, b: F.conv2d(a.detach().view(1, 2, 4, 4), b.view(4, 2, 2, 2)),
    "attention": lambda a, b: F.scaled_dot_product_attention(a.view(1, 1, 4, 8), b.view(1, 1, 4, 8), b.detach().view(1, 1, 4, 8) + 1),
    "attention whose values are written": lambda a, b: F.scaled_dot_product_attention(a.view(1, 1, 4, 8) + 1, a.view(1, 1, 4, 8) * 2, b.view(1, 1, 4, 8)),
    "attention with a mask": lambda a, b: F.scaled_dot_product_attention(a.view(1, 1, 4, 8) + 1, a.view(1, 1, 4, 8) * 2, a.view(1, 1, 4, 8) * 3, b[:, :4].detach().contiguous()) * 2,
    "attention of bools": lambda a, b: F.scaled_dot_product_attention(a.view(1, 1, 4, 8), a.view(1, 1, 4, 8), a.view(1, 1, 4, 8), b[:, :4] > 0.7) * 2,
    "causal attention": lambda a, b: F.scaled_dot_product_attention(a.view(1, 1, 4, 8), b.view(1, 1, 4, 8), a.view(1, 1, 4, 8) * 2, is_causal=True),
    "heads": lambda a, b: F.scaled_dot_product_attention(*(t.view(1, 4, 2, 4).transpose(1, 2) for t in (a, b, a * 1))).transpose(1, 2).reshape(4, 8) * b.detach(),
    "layer_norm": lambda a, b: F.layer_norm(a, (8,), b[0], b[1]),
    "layer_norm without weights": lambda a, b: F.layer_norm(a, (8,)) + b,
    "group_norm": lambda a, b: F.group_norm(a, 2, b[0], b[1]),
    "batch_norm": lambda a, b: F.batch_norm(a, None, None, b[0], b[1], True),
    "batch_norm that is given its statistics": lambda a, b: F.batch_norm(a, b[2].detach(), b[3].detach(), b[0], b[1]),
    "dropout": lambda a, b: F.dropout(a, 1e-9) * b.detach(),
    "cat": lambda a, b: torch.cat([a, b]),
    "a view of what is computed": lambda a, b: F.linear(a.view(2, 2, 8), b, torch.ones(4)).view(4, 4) + 1,
}


def step(called, place):
    given = [numbers(4, 8).requires_grad_(), numbers(4, 8).flip(0).contiguous().requires_grad_()]
    result = called(*given)
    with torch.no_grad():
        given[place].add_(1)
    try:
        (result * numbers(*result.shape).cos()).sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return [t.grad for t in given]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("call", CALLS)
def test_a_write_before_the_backward_pass(call, place):
    ours, eagers = step(oxytorch.compile(CALLS[call]), place), step(CALLS[call], place)
    assert (ours is True) == (eagers is True), "raises" if eagers is True else "does not raise"
    if eagers is not True:
        torch.testing.assert_close(ours, eagers)


@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8), (2, 2, 3, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_views_stay_views(shape, bias):
    """Of what is no view gradients may be taken off in place."""

    def f(t, weight, bias):
        return F.linear(t, weight, bias).detach_()

    given = numbers(*shape), numbers(5, 8).requires_grad_(), numbers(5) if bias else None
    is_refused = len(shape) > 2 and bias
    for called in (f, oxytorch.compile(f)):
        if is_refused:
            with pytest.raises(RuntimeError, match="detach views in-place"):
                called(*given)
        else:
            assert not called(*given).requires_grad


def test_statistics_that_require_grad_are_torchs_to_refuse():
    def f(t, mean, var):
        return F.batch_norm(t, mean, var, training=True)

    given = numbers(4, 8), numbers(8).requires_grad_(), numbers(8)
    for called in (f, oxytorch.compile(f)):
        with pytest.raises(RuntimeError, match="running_mean"):
            called(*given)


@pytest.mark.parametrize("p, train", [(0.5, False), (0.0, True), (1.0, True)])
def test_dropout_that_drops_nothing_or_all(p, train):
    def f(t):
        return torch.dropout(t, p=p, train=train) * 2, F.dropout(t, p, train) * 2

    t = numbers(4, 8).requires_grad_()
    torch.testing.assert_close(oxytorch.compile(f)(t), f(t))


WRITTEN = {
    "relu": lambda y: F.relu(y, inplace=1),
    "relu by place": lambda y: F.relu(y, 1),
    "silu": lambda y: torch.nn.SiLU(1)(y),
    "elu": lambda y: F.elu(y, 1.0, 1),
    "leaky_relu": lambda y: F.leaky_relu(y, 0.1, inplace="yes"),
    "hardswish": lambda y: F.hardswish(y, inplace=True),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("call", WRITTEN)
def test_a_flag_that_counts_as_true_is_one(call, grad):
    def f(t):
        y = t - 1
        WRITTEN[call](y)
        return y * 2

    compiled = oxytorch.compile(f)
    for _ in range(2):
        found = []
        for called in (compiled, f):
            t = numbers(4, 8).requires_grad_(grad)
            result = called(t)
            found.append((result.detach(), torch.autograd.grad(result.sum(), t) if grad else ()))
        torch.testing.assert_close(*found)


REFUSED = {
    "relu": lambda t: torch.relu(t, 3),
    "relu of a tensor": lambda t: t.relu(3),
    "relu with a flag": lambda t: torch.relu(t, inplace=False),
    "relu that writes": lambda t: torch.relu(t, inplace=True),
    "layer_norm": lambda t: F.layer_norm(t, (8,), None, None, 1e-5, True),
    "group_norm": lambda t: F.group_norm(t, 2, None, None, 1e-5, True),
    "dropout": lambda t: F.dropout(t, 0.5, foo=None),
    "batch_norm": lambda t: F.batch_norm(t, None, None, training=True, momentum="a"),
    "batch_norm of torch": lambda t: torch.batch_norm(t, None, None, None, None, True, 0.1, 1e-5),
    "norm": lambda t: t.norm(2, 1, 1),
    "linear": lambda t: F.linear(t, t, None, None),
    "twice": lambda t: F.relu(t, input=t),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("call", REFUSED)
def test_what_a_function_does_not_take_is_refused(call, grad):
    for called in (REFUSED[call], oxytorch.compile(REFUSED[call])):
        t = numbers(4, 8).requires_grad_(grad)
        with pytest.raises(TypeError):
            called(t)
        assert torch.equal(t, numbers(4, 8))


def test_dimensions_have_two_names():
    f = lambda t: torch.cat([t, t], axis=1)
    t = numbers(4, 8).requires_grad_()
    assert oxytorch.compile(f)(t).shape == f(t).shape
