"""`shapes=`: sizes that are declared to vary, and what is said of declarations that cannot be kept."""

import functools

import oxytorch
import pytest
import torch
from compare import assert_same
from torch import nn


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


def scaled(x, y=None):
    return x.softmax(-1) * (1 if y is None else y)


def traced(compiled):
    return (compiled._oxytorch.call if isinstance(compiled, nn.Module) else compiled).stats()["traced"]


def test_one_compile_for_all_that_is_declared():
    compiled = oxytorch.compile(scaled, shapes={"x": {0: (1, 64), 1: None}})
    for rows, columns in ((4, 8), (9, 3), (64, 2), (5, 1000), (1, 7), (3, 1)):
        x = torch.randn(rows, columns)
        assert_same(compiled(x), scaled(x))
    assert traced(compiled) == 1
    x = torch.randn(4, 8)
    assert_same(compiled(x=x), scaled(x))


def test_parameters_by_name_and_dimensions_from_the_end():
    compiled = oxytorch.compile(scaled, shapes={"x": {-1: (2, 50)}, "y": {-1: (2, 50)}})
    for n in (4, 8, 50, 2):
        x, y = torch.randn(3, n), torch.randn(3, n)
        assert_same(compiled(x, y=y), scaled(x, y))
    assert traced(compiled) == 1


def test_a_module():
    model = nn.Sequential(nn.Linear(4, 5), nn.GELU())
    compiled = oxytorch.compile(model, shapes={"input": {0: (1, 100)}})
    for n in (7, 2, 100):
        x = torch.randn(n, 4)
        assert_same(compiled(x), model(x))
    assert traced(compiled) == 1


def test_what_is_not_declared_is_seen_to_change():
    compiled = oxytorch.compile(scaled, shapes={"x": {0: (1, 64)}})
    for rows, columns in ((4, 8), (9, 8), (9, 3), (7, 2)):
        x = torch.randn(rows, columns)
        assert_same(compiled(x), scaled(x))
    assert traced(compiled) == 2


def test_a_size_beyond_its_range():
    compiled = oxytorch.compile(scaled, shapes={"x": {0: (2, 8)}})
    compiled(torch.randn(4, 3))
    for n in (9, 1, 0):
        with pytest.raises(ValueError, match=f"x: dimension 0 is declared by shapes= to be 2 to 8, but its size is {n} .*test_shapes.py:\\d+ for scaled"):
            compiled(torch.randn(n, 3))
    assert traced(compiled) == 1


def test_a_dimension_that_is_not_there():
    with pytest.raises(ValueError, match="x: shapes= declares dimension 2, but it has 2 dimensions"):
        oxytorch.compile(scaled, shapes={"x": {2: (1, 8)}})(torch.randn(4, 3))


def test_a_dimension_that_the_program_fixes():
    weight = torch.randn(3, 2)
    with pytest.raises(ValueError, match=r"dimension 1 of x is declared by shapes= .* to be 3 \(.*test_shapes.py:\d+"):
        oxytorch.compile(lambda x: x @ weight, shapes={"x": {1: (1, 8)}})(torch.randn(4, 3))


WRONG = {
    "no such parameter": ({"z": {0: None}}, ValueError, "no parameter \"z\"; there are x, y"),
    "the wrong way round": ({"x": {0: (8, 2)}}, ValueError, "x, dimension 0: no size is 8 to 2"),
    "negative": ({"x": {0: (-1, 2)}}, ValueError, "no size is -1 to 2"),
    "too large": ({"x": {0: (1, 2**64)}}, TypeError, "x, dimension 0: a range is"),
    "no dict": ({"x": (1, 2)}, TypeError, "x needs a dict of its dimensions"),
    "no range": ({"x": {0: "all"}}, TypeError, "x, dimension 0: a range is"),
    "no dimension": ({"x": {"rows": (1, 2)}}, TypeError, "x needs a dict of its dimensions"),
    "no dict of names": ([("x", {0: (1, 2)})], TypeError, "a dict of parameters' names, as in"),
    "no name": ({0: {0: (1, 2)}}, TypeError, "parameters' names"),
}


@pytest.mark.parametrize("shapes, kind, text", WRONG.values(), ids=WRONG)
def test_what_cannot_be_meant(shapes, kind, text):
    with pytest.raises(kind, match=text):
        oxytorch.compile(scaled, shapes=shapes)


def test_a_function_without_names():
    with pytest.raises(ValueError, match="no parameter \"x\"; none has a name of its own"):
        oxytorch.compile(lambda *args, **kwargs: args, shapes={"x": {0: None}})


@pytest.mark.parametrize("dynamic", [1, 0])
def test_dynamic_is_no_number(dynamic):
    with pytest.raises(TypeError, match="dynamic is True, False or None, not "):
        oxytorch.compile(scaled, dynamic=dynamic)


def test_contradictions():
    with pytest.raises(ValueError, match="x: dimension 1 is declared twice by shapes=, to be 1 to 4 and to be 2 to 8"):
        oxytorch.compile(scaled, shapes={"x": {1: (1, 4), -1: (2, 8)}})(torch.randn(4, 3))
    static = torch.randn(4, 3)
    torch._dynamo.mark_static(static, 0)
    with pytest.raises(ValueError, match="x: dimension 0 is declared by shapes= to vary, and marked as one that does not"):
        oxytorch.compile(scaled, shapes={"x": {0: None}})(static)
    marked = torch.randn(4, 3)
    torch._dynamo.mark_dynamic(marked, 0, min=2, max=4)
    compiled = oxytorch.compile(scaled, shapes={"x": {0: (1, 9)}})
    assert_same(compiled(marked), scaled(marked))
    torch._dynamo.mark_dynamic(other := torch.randn(5, 3), 0, min=2, max=4)
    with pytest.raises(ValueError, match="declared by mark_dynamic to be 2 to 4, but its size is 5"):
        compiled(other)
    with pytest.raises(ValueError, match="dynamic=False"):
        oxytorch.compile(scaled, dynamic=False, shapes={"x": {0: None}})


def test_places_are_those_of_parameters_that_have_some():
    def first(a, *rest, b=None):
        return a * 2

    compiled = oxytorch.compile(first, shapes={"b": {0: (2, 8)}})
    t = torch.ones(50)
    assert_same(compiled(t, t, t), first(t))
    with pytest.raises(ValueError, match="b: dimension 0"):
        compiled(t, b=t)
    with pytest.raises(ValueError, match='no parameter "rest"'):
        oxytorch.compile(first, shapes={"rest": {0: (2, 8)}})


def test_declared_sizes_are_apart():
    captured = oxytorch.compile(lambda x: x.sum(0) + 1, shapes={"x": {0: (2, 9), 1: (2, 9)}})
    for shape in ((4, 4), (6, 3), (3, 8)):
        t = torch.randn(shape)
        assert_same(captured(t), t.sum(0) + 1)
    assert captured.stats()["traced"] == 1


SIZES = (1, 2, 7, 33, 1, 64)


@pytest.mark.parametrize("first", (1, 2, 40))
def test_whatever_the_first_size_is(first):
    """A size of 1 is one of many behind a first call with another; code that is made for 1 is for 1 alone."""
    layer = nn.Linear(6, 5).eval()

    def f(x):
        return torch.softmax(layer(x).relu() * x.shape[0], -1).transpose(0, 1), x.sum(0), x.reshape(x.shape[0], -1).tanh()

    compiled = oxytorch.compile(f, shapes={"x": {0: (1, 64)}})
    for n in (first, *SIZES):
        x = torch.randn(n, 3, 6)
        assert_same(compiled(x), f(x))
    assert traced(compiled) == (2 if first == 1 else 1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x, *, mask=None, scale=2.0):
        h = self.inner(x) * scale
        return h if mask is None else h.masked_fill(~mask[..., None], 0.0)

    def other(self, x, mask=None):
        return self.forward(x, mask=mask)


def ways():
    """A module, a method of it, a function with keywords and defaults: each with how it is called, and what is declared."""
    model = Model().eval()
    both = {"x": {0: (1, 8), 1: (1, 64)}, "mask": {0: (1, 8), 1: (1, 64)}}
    yield "module", model, lambda f, x, mask: f(x, mask=mask), both
    yield "method", model.other, lambda f, x, mask: f(x, mask), both
    yield "keywords", model.other, lambda f, x, mask: f(mask=mask, x=x), both
    yield "defaults", model.other, lambda f, x, mask: f(x), both
    yield "partial", functools.partial(model.other), lambda f, x, mask: f(x, mask=mask), both


@pytest.mark.parametrize("way", ways(), ids=lambda way: way[0])
@pytest.mark.parametrize("first", ((2, 5), (3, 1), (1, 5)))
def test_functions_methods_modules_keywords_and_defaults(way, first):
    _, function, call, shapes = way
    compiled = oxytorch.compile(function, shapes=shapes)
    for n, m in (first, (8, 64), (4, 9), (3, 7), (1, 12), (6, 1), (5, 33)):
        x, mask = torch.randn(n, m, 6), torch.rand(n, m) > 0.3
        assert_same(call(compiled, x, mask), call(function, x, mask))
    assert traced(compiled) <= (1 if min(first) > 1 else 2)
    with pytest.raises(ValueError, match="(x|mask): dimension 1 is declared by shapes= to be 1 to 64, but its size is 65"):
        call(compiled, torch.randn(2, 65, 6), torch.rand(2, 65) > 0.3)


class Held:
    @oxytorch.compile(shapes={"x": {0: (1, 9)}})
    def doubled(self, x):
        return x * 2


def test_a_method_that_its_class_declares():
    for held in (Held(), Held()):
        for n in (3, 9, 1, 2):
            x = torch.randn(n, 4)
            assert_same(held.doubled(x), x * 2)
        with pytest.raises(ValueError, match="x: dimension 0 is declared .* but its size is 10"):
            held.doubled(torch.randn(10, 4))


def test_a_size_beyond_is_refused_however_calls_are_served():
    for options in ({"recompile_limit": 1}, {"error_on_recompile": True}):
        compiled = oxytorch.compile(scaled, shapes={"x": {0: (2, 8)}}, options=options)
        compiled(torch.randn(4, 3))
        for _ in range(2):
            with pytest.raises(ValueError, match="x: dimension 0 is declared by shapes= to be 2 to 8"):
                compiled(torch.randn(9, 3))
        assert compiled.report()["recompiles"] == []
