"""Detached tensors that are written with what requires grad: they have a gradient from then on, and what they were detached from has not."""

import compare
import oxytorch
import pytest
import torch
from training import DOORS, check, x

both = pytest.mark.parametrize("door", DOORS)


def of_a_value(x, w):
    value = x * 1
    value.detach()[0].add_(w)
    return (value * w).sum()


def seen_by_its_own_view(x, w):
    detached = (x * 1).detach()
    row = detached[0]
    detached.mul_(w)
    return (row * row).sum()


def seen_by_an_argument_s_view(x, w):
    detached = x.detach()
    row = detached[0]
    detached.mul_(w)
    return (row * row).sum()


def through_its_view(x, w):
    detached = (x * w).detach()
    detached[0].mul_(w)
    detached[1] = w
    return (detached * detached).sum()


def as_a_whole(x, w):
    detached = (x * w).detach()
    detached += w
    return (detached * detached).sum()


def seen_by_another(x, w):
    value = x * 1
    first, second = value.detach(), value.detach()
    first.mul_(w)
    return (second * w).sum()


def the_value_itself(x, w):
    value = x * 1
    detached = value.detach()
    value.mul_(w)
    return (detached * w).sum() + value.sum()


def the_value_itself_behind_all(x, w):
    value = x * w
    mean = value.detach().mean()
    value.relu_()
    return (value * mean).sum()


def of_a_tensor_made_here(x, w):
    made = torch.zeros(3, 4)
    made.detach()[0] = w
    return (made * w).sum() + (made.view(-1) * 2).sum() * w.sum()


def by_data(x, w):
    value = x * w
    data = value.data
    data[0] = w
    return (value * w).sum() + (data * w).sum()


def behind_a_cut(x, w):
    value = x * w
    detached = value.detach()
    more = torch.linalg.svdvals(x * w).sum()
    detached.add_(w)
    return (value * w).sum() + detached.square().sum() + more


def by_an_overload_of_aten(x, w):
    value = x * w
    detached = torch.ops.aten.detach.default(value)
    detached.mul_(w)
    return (value * w).sum() + detached.sum()


def the_value_itself_through_a_view(x, w):
    value = x * 1
    detached = value.detach()
    row = detached[1]
    value[1].mul_(w)
    value.t()[0] = w[0]
    return (detached * w).sum() + (row * w).sum() + value.square().sum(), detached


def the_value_itself_by_a_flag(x, w):
    value = x * w
    detached = value.detach()
    torch.nn.functional.relu(value, inplace=True)
    return (detached * w).sum() + value.square().sum(), detached


def the_value_itself_behind_a_cut(x, w):
    value = x * w
    detached, data = value.detach(), value.data
    more = torch.linalg.svdvals(x * w).sum()
    value.mul_(w)
    return (value * w).sum() + (detached * data * w).square().sum() + more


def the_value_itself_that_is_seen(x, w):
    value = x * w
    detached = value.detach()
    seen = value * 2
    value.mul_(w)
    return (seen * seen * detached).sum() + value.sum(), seen, detached


def in_place_behind_its_uses(x, w):
    value = x * 1
    detached = value.detach()
    value.mul_(w)
    loss, seen = (detached * w).sum(), value * 1
    value.detach_()
    return loss + seen.sum(), seen


def in_place_behind_a_use_of_its_view(x, w):
    value = x * w
    row = value[0] * w
    value.detach_()
    return (row * value * w).sum(), row


FUNCTIONS = [
    in_place_behind_its_uses,
    in_place_behind_a_use_of_its_view,
    of_a_value,
    seen_by_its_own_view,
    seen_by_an_argument_s_view,
    through_its_view,
    as_a_whole,
    seen_by_another,
    the_value_itself,
    the_value_itself_behind_all,
    the_value_itself_through_a_view,
    the_value_itself_by_a_flag,
    the_value_itself_behind_a_cut,
    the_value_itself_that_is_seen,
    of_a_tensor_made_here,
    by_data,
    behind_a_cut,
    by_an_overload_of_aten,
]


@both
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_gradients_of_what_was_detached_and_written(door, function, needs_grad):
    called = DOORS[door](function)
    for call in range(2):
        found = []
        for each in (called, function):
            generator = torch.Generator().manual_seed(call)
            x = torch.randn(3, 4, generator=generator, dtype=torch.float64).requires_grad_(needs_grad)
            w = torch.randn(4, generator=generator, dtype=torch.float64).requires_grad_()
            outputs = each(x, w)
            loss, *seen = outputs if isinstance(outputs, tuple) else (outputs,)
            loss.backward()
            flags = [(out.requires_grad, out.is_leaf) for out in seen]
            found.append((loss.detach(), [out.detach() for out in seen], flags, w.grad.contiguous(), None if x.grad is None else x.grad.contiguous()))
        compare.assert_same(*found)


def test_what_was_detached_and_is_seen_alone_is_compiled():
    oxytorch.compile(through_its_view, fullgraph=True)(torch.ones(3, 4), torch.ones(4, requires_grad=True))
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_what_is_detached_in_place_at_once_is_compiled():
    def function(x, w):
        value = (x * w).detach_()
        return value * w

    torch.compile(function, backend="oxytorch")(torch.ones(3, 4), torch.ones(4, requires_grad=True))
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_what_is_normalised_beside_a_detached_view_is_compiled():
    def function(x, mean, var):
        value = x * 2
        detached = value.detach()
        return torch.nn.functional.batch_norm(value, mean, var, training=True) + detached

    oxytorch.compile(function, fullgraph=True)(torch.ones(3, 4, requires_grad=True), torch.zeros(4), torch.ones(4))
    assert oxytorch.last_compile()["outcome"] == "compiled"


@pytest.mark.parametrize("write", [torch.relu_, lambda t: torch.nn.functional.relu(t, inplace=True)])
def test_what_is_written_beside_a_detached_view_that_is_only_read_is_compiled(write):
    def function(x, w):
        value = x @ w
        detached = value.detach()
        return write(value) * detached.mean()

    oxytorch.compile(function, fullgraph=True)(torch.ones(4, 4), torch.ones(4, 4, requires_grad=True))
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_weights_of_a_normalisation_beside_a_detached_view_of_them_are_compiled():
    def function(x, mean, var, weight):
        detached = weight.detach()
        return torch.nn.functional.batch_norm(x, mean, var, weight, training=True) * detached

    oxytorch.compile(function, fullgraph=True)(
        torch.ones(3, 4, requires_grad=True), torch.zeros(4), torch.ones(4), torch.ones(4, requires_grad=True)
    )
    assert oxytorch.last_compile()["outcome"] == "compiled"


@pytest.mark.filterwarnings("ignore:oxytorch")
def test_a_write_without_grad_beside_a_detached_view_is_compiled_around():
    def function(x, w):
        detached = w.detach()
        with torch.no_grad():
            w.mul_(2)
        return (x * w).sum() * detached.sum()

    oxytorch.compile(function, fullgraph=True)(torch.ones(4), torch.ones(4, requires_grad=True))
    assert oxytorch.last_compile()["outcome"] == "compiled"


@pytest.mark.parametrize("view", [lambda t: t[0], lambda t: t.view(-1), lambda t: t.T], ids=["part", "flat", "turned"])
def test_a_view_is_not_detached_in_place(view):
    """Neither where it is computed alone, as a tensor of its own."""

    def f(x, w):
        part = view(x * w)
        part.detach_()
        return part.sum()

    def error(called):
        with pytest.raises(RuntimeError, match="Can't detach views in-place") as error:
            called(torch.ones(4, 3, requires_grad=True), torch.ones(3, requires_grad=True))
        return str(error.value)

    called = oxytorch.compile(f)
    for _ in range(2):
        assert error(called) == error(f)


def without_grad(x):
    with torch.no_grad():
        return x.as_strided((2, 2), (2, 1), 1)


def pairs_without_grad(x):
    with torch.no_grad():
        return torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2)))


@both
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "view",
    [
        without_grad,
        lambda x: x.detach().as_strided((2, 2), (2, 1), 1),
        lambda x: x.data.as_strided((2, 2), (2, 1), 1),
        lambda x: x.as_strided((2, 2), (2, 1), 1),
        pairs_without_grad,
        lambda x: torch.view_as_real(torch.view_as_complex(x.detach().view(4, 3, 2))),
    ],
)
def test_views_that_only_torch_makes_end_gradients_too(view, dynamic, door):
    """The gradient came through to the argument."""
    torch._dynamo.reset()
    found = []
    for called in (DOORS[door](view, dynamic=dynamic), view):
        x = torch.arange(24.0).view(4, 6).requires_grad_()
        result = called(x)
        ((result * 2).sum() + x.sum()).backward()
        found.append((result.requires_grad, result.is_leaf, result.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("of", ["topk", "sort", "cummax", "kthvalue", "median"])
@pytest.mark.parametrize("how", ["scaled", "overwritten"])
def test_values_that_a_call_gives_beside_indices_are_written_by_a_detached_view(of, how):
    """What the call gave came out in the place of what was written."""

    def f(t):
        values = getattr(t, of)(2).values if of in ("topk", "kthvalue") else getattr(t, of)(-1).values
        detached = values.detach()
        detached.mul_(2) if how == "scaled" else detached.fill_(0.5)
        return values + 1

    check(f, x(3, 4))


@pytest.mark.filterwarnings("ignore:oxytorch. create_graph")
def test_what_is_detached_becomes_a_leaf_in_the_trace():
    """A gradient penalty: of what it was detached from nobody knows."""

    def penalty(x, w):
        point = (x * 0.5).detach().requires_grad_(True)
        (slope,) = torch.autograd.grad((point @ w).exp().sum(), point, create_graph=True)
        return (slope.norm(2, dim=1) - 1).pow(2).mean()

    x, plain, given = torch.linspace(0, 1, 12).view(3, 4), *(torch.ones(4, requires_grad=True) for _ in range(2))
    compiled = oxytorch.compile(penalty)
    for _ in range(2):
        plain.grad = given.grad = None
        (want := penalty(x, plain)).backward()
        (got := compiled(x, given)).backward()
        assert torch.allclose(got, want) and torch.allclose(given.grad, plain.grad)
    assert compiled.report()["segments"][0]["graph"] is not None
