"""Tensors from outside of a graph that share memory with one another: a write to one of them gives all a gradient, as in eager."""

import sys

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn

sizes = pytest.mark.parametrize("dynamic", [None, True, False])


def stop(x, w):
    print("", end="")
    return x.sum()


def torch_s_own(x, w):
    return torch.linalg.svdvals(x * w).sum()


VIEWS = {
    "transpose": lambda b: b.t(),
    "row": lambda b: b[1],
    "all": lambda b: b.view(-1),
    "part": lambda b: b.narrow(0, 1, 2),
    "detached": lambda b: b.detach(),
}

# What stands in front is made of the argument; `view` and `b` come to the graph behind as two tensors.


def writes_the_view(b, x, w, view_of, between):
    view = view_of(b)
    more = between(x, w)
    view.add_(w.sum() * 2)
    return b.sin() * x + more, view * 1


def stores_in_the_view(b, x, w, view_of, between):
    view = view_of(b)
    more = between(x, w)
    view[0] = w.sum()
    return b.sin() * x + more


def writes_the_base(b, x, w, view_of, between):
    view = view_of(b)
    more = between(x, w)
    b.mul_(w)
    return view.sin() * more, b * x


def writes_both(b, x, w, view_of, between):
    view, row = view_of(b), b[2]
    more = between(x, w)
    row.mul_(x[0])
    b.add_(view.sum())
    return view.sin() * more, row * 1


def asks(b, x, w, view_of, between):
    view = view_of(b)
    more = between(x, w)
    view.add_(w.sum())
    known = b.requires_grad
    y = b.sin()
    return (y * 3 + more, known) if y.requires_grad else (y * 5 - more, known)


def tensors(seed, computed=False):
    generator = torch.Generator().manual_seed(seed)
    x, w, b = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((4, 4), (4,), (4, 4)))
    x.requires_grad_(), w.requires_grad_()
    return b * w if computed else b, x, w


def trained(called, args, *more):
    outputs = called(*args, *more)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum(out.sin().sum() for out in outputs if isinstance(out, torch.Tensor))
    wanted = [arg for arg in args if arg.is_leaf and arg.requires_grad]
    grads = torch.autograd.grad(loss, wanted, allow_unused=True)
    grads = [None if grad is None else grad.contiguous() for grad in grads]
    flags = [getattr(value, "requires_grad", value) for value in (*outputs, *args)]
    return flags, [out.detach() for out in outputs if isinstance(out, torch.Tensor)], grads, [arg.detach() for arg in args]


@sizes
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("between", [stop, torch_s_own])
@pytest.mark.parametrize(
    "function", [writes_the_view, stores_in_the_view, writes_the_base, writes_both, asks], ids=lambda function: function.__name__
)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_a_view_from_in_front_of_a_break_is_written_behind_it(function, between, view, dynamic):
    compiled = oxytorch.compile(function, dynamic=dynamic)
    for computed in (False, True):
        for call in range(2):
            ours, theirs = tensors(call, computed), tensors(call, computed)
            compare.assert_same(
                trained(compiled, ours, VIEWS[view], between), trained(function, theirs, VIEWS[view], between), label=str(call)
            )


def behind_a_cut(b, v, x, w):
    more = torch.linalg.svdvals(x * w).sum()
    v.add_(w[:, None])
    y = b.sin()
    return y * 3 + more if y.requires_grad else y * 5 - more


def in_one_graph(b, v, x, w):
    v.mul_(w)
    return b.sin() * x, b.requires_grad


GIVEN = {
    "apart": lambda b: (b, b.flip(0)),
    "transpose": lambda b: (b, b.t()),
    "view": lambda b: (b, b.view(4, 4)),
    "detached": lambda b: (b, b.detach()),
    "two views": lambda b: (b.view(4, 4), b.view(4, 4)),
}


@sizes
@pytest.mark.parametrize("function", [behind_a_cut, in_one_graph], ids=lambda function: function.__name__)
@pytest.mark.parametrize("order", [["apart", "view", "detached", "two views"], ["two views", "apart", "transpose"]])
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_arguments_that_share_memory_in_some_calls_and_in_others_not(order, function, dynamic):
    compiled = oxytorch.compile(function, dynamic=dynamic)
    for call, given in enumerate(order):
        found = []
        for called in (compiled, function):
            b, x, w = tensors(call)
            found.append(trained(called, (*GIVEN[given](b), x, w)))
        compare.assert_same(*found, label=f"{call}: {given}")


def test_a_write_to_what_another_argument_shares_is_no_break():
    def function(b, v, x, w):
        v.add_(w[:, None])
        v[0] = w
        return b.sin() * x

    compiled = oxytorch.compile(function, fullgraph=True)
    for call in range(3):
        found = []
        for called in (compiled, function):
            b, x, w = tensors(call)
            found.append(trained(called, (b, b.t(), x, w)))
        compare.assert_same(*found)


def adds_up(a, b, x, w):
    a.add_(b)
    return a.sin() * x.detach()


def keeps_statistics(a, b, x, w):
    h = x * w
    with torch.no_grad():
        a.lerp_(h.mean(0), 0.1)
        b.lerp_(h.var(0), 0.1)
    return h, (h - a) / (b + 2).sqrt()


@pytest.mark.parametrize("function", [adds_up, keeps_statistics], ids=lambda function: function.__name__)
def test_what_is_written_without_a_gradient_tells_the_others_nothing(function):
    """It is one graph, and the graph is for arguments that share memory as well as for others."""
    compiled, run = oxytorch.compile(function), []
    for call in range(3):
        found = []
        for called in (compiled, function):
            _, x, w = tensors(call)
            rows = torch.ones(2, 4, dtype=torch.float64)
            outputs = called(*rows, x, w)
            loss = sum(out.sin().sum() for out in outputs)
            found.append((outputs, rows, torch.autograd.grad(loss, [x, w], allow_unused=True) if loss.requires_grad else None))
        compare.assert_same(*found)
    sys.setprofile(lambda frame, event, arg: run.append(frame.f_code))
    compiled(*rows, x, w)
    sys.setprofile(None)
    assert function.__code__ not in run
    explained = oxytorch.explain(function)(*rows, x, w)
    assert len(explained.graphs) == 1 and not explained.reads


@sizes
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_a_part_of_what_is_written_in_two_pieces_is_written_with_a_gradient_in_the_second(dynamic):
    def function(b, x, w):
        value = b.sin()
        value.mul_(2)
        seen = w * w
        more = seen * x
        value[0].mul_(w)
        return value * 1, seen, more

    compiled = oxytorch.compile(function, dynamic=dynamic)
    for call in range(2):
        compare.assert_same(trained(compiled, tensors(call)), trained(function, tensors(call)))


class Rows(nn.Module):
    """Its buffers are a table and a row of it."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.1, 0.9, 4, dtype=torch.float64))
        self.begin()

    def begin(self):
        self.register_buffer("table", torch.ones(4, 4, dtype=torch.float64))
        self.register_buffer("row", self.table[1])

    def forward(self, x):
        self.row.mul_(self.scale)
        return self.table.sin() * x


@sizes
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_buffers_that_share_memory(dynamic):
    found = []
    for wrap in (lambda model: oxytorch.compile(model, dynamic=dynamic), lambda model: model):
        model = Rows()
        called = wrap(model)
        for call in range(3):
            model.begin()
            called(tensors(call)[1]).sum().backward()
            found.append((model.scale.grad.clone(), model.table.detach(), model.table.requires_grad))
    compare.assert_same(found[:3], found[3:])
