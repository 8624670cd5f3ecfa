"""`shapes=`: sizes that are declared to vary, and what is said of declarations that cannot be kept."""

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
        with pytest.raises(ValueError, match=f"x: dimension 0 is declared by shapes= to be 2 to 8, but its size is {n}"):
            compiled(torch.randn(n, 3))
    assert traced(compiled) == 1


def test_a_dimension_that_is_not_there():
    with pytest.raises(ValueError, match="x: shapes= declares dimension 2, but it has 2 dimensions"):
        oxytorch.compile(scaled, shapes={"x": {2: (1, 8)}})(torch.randn(4, 3))


def test_a_dimension_that_the_program_fixes():
    weight = torch.randn(3, 2)
    with pytest.raises(ValueError, match=r"dimension 1 of arg0 is marked .* to be 3 \(.*test_shapes.py:\d+"):
        oxytorch.compile(lambda x: x @ weight, shapes={"x": {1: (1, 8)}})(torch.randn(4, 3))


WRONG = {
    "no such parameter": ({"z": {0: None}}, ValueError, "no parameter \"z\"; there are x, y"),
    "the wrong way round": ({"x": {0: (8, 2)}}, ValueError, "x, dimension 0: no size is 8 to 2"),
    "negative": ({"x": {0: (-1, 2)}}, ValueError, "no size is -1 to 2"),
    "too large": ({"x": {0: (1, 2**64)}}, TypeError, "x, dimension 0: a range is"),
    "no dict": ({"x": (1, 2)}, TypeError, "x needs a dict of its dimensions"),
    "no range": ({"x": {0: "all"}}, TypeError, "x, dimension 0: a range is"),
    "no dimension": ({"x": {"rows": (1, 2)}}, TypeError, "x needs a dict of its dimensions"),
    "no name": ({0: {0: (1, 2)}}, TypeError, "parameters' names"),
}


@pytest.mark.parametrize("shapes, kind, text", WRONG.values(), ids=WRONG)
def test_what_cannot_be_meant(shapes, kind, text):
    with pytest.raises(kind, match=text):
        oxytorch.compile(scaled, shapes=shapes)


def test_contradictions():
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
