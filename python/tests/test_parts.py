"""A result that is a part of what eager makes as a whole lies in such a whole: where it begins and how large its storage is can be asked."""

import warnings

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from compare import assert_same

COMPILERS = {"own": oxytorch.compile, "dynamo": lambda f, **kw: torch.compile(f, backend="oxytorch", **kw)}

WHOLES = {
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.T.contiguous(),
    "flip": lambda x: x.flip(0),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x], 1),
    "repeat": lambda x: x.repeat(2, 1),
    "roll": lambda x: x.roll(1, 0),
    "pad": lambda x: F.pad(x, (1, 1)),
    "copy": lambda x: torch.empty_like(x).copy_(x),
    "to": lambda x: x.to(x.dtype, copy=True),
    "constant": lambda x: torch.ones(x.shape),
    "computed": lambda x: x.relu(),
    "product": lambda x: x @ x.T,
    "written": lambda x: x.clone().mul_(2),
    "tile_of_scan": lambda x: x.cumsum(0),
    "last": lambda x: x[None, :, :, None].contiguous(memory_format=torch.channels_last)[0, :, :, 0],
}

PARTS = {
    "rows": lambda y: y[2:4],
    "columns": lambda y: y[:, 1:3],
    "step": lambda y: y[1::2],
    "row": lambda y: y[-1],
    "diagonal": lambda y: y.diagonal(1) if y.dim() == 2 else y[0].diagonal(1),
    "transposed": lambda y: y.transpose(0, 1)[1:3],
    "expanded": lambda y: y[2:3].expand(3, *y.shape[1:]),
    "written": lambda y: y[2:4].add_(1),
    "chunk": lambda y: y.chunk(2)[1],
}


def lies(t):
    return t.shape, t.stride(), t.storage_offset(), t.untyped_storage().size()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("whole", WHOLES)
def test_a_part_begins_where_eagers_does(whole, part, compiler):
    function = lambda x: PARTS[part](WHOLES[whole](x))
    torch._dynamo.reset()
    compiled = COMPILERS[compiler](function)
    x = torch.randn(6, 5)
    for _ in range(2):
        ours, eagers = compiled(x), function(x)
        assert_same(ours, eagers)
        assert lies(ours) == lies(eagers)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("whole", ["clone", "cat", "repeat", "computed"])
def test_a_part_begins_where_eagers_does_at_all_sizes(whole, part, compiler):
    function = lambda x: PARTS[part](WHOLES[whole](x))
    torch._dynamo.reset()
    compiled = COMPILERS[compiler](function, dynamic=True)
    for shape in ((6, 5), (8, 7), (12, 4)):
        x = torch.randn(shape)
        ours, eagers = compiled(x), function(x)
        assert_same(ours, eagers)
        assert lies(ours) == lies(eagers)


@pytest.mark.parametrize("whole", ["clone", "cat", "computed", "written"])
def test_gradients_of_parts(whole):
    function = lambda x: PARTS["rows"](WHOLES[whole](x))
    x = torch.randn(6, 5, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    ours, eagers = oxytorch.compile(function)(x), function(y)
    ours.square().sum().backward()
    eagers.square().sum().backward()
    assert_same((ours.detach(), x.grad), (eagers.detach(), y.grad))
    assert lies(ours) == lies(eagers)


def test_what_lies_beside_a_part_is_eagers():
    """The storage is not only as large: the rest of the whole is in it."""
    x = torch.randn(6, 5)
    part = oxytorch.compile(lambda x: x.clone()[2:4])(x)
    assert torch.equal(part.as_strided((6, 5), (5, 1), 0), x)


OWN = {
    "rows": lambda x: x.sin()[2:4].clone(),
    "columns": lambda x: x.sin()[:, 1:3].contiguous(),
    "row": lambda x: x.cumsum(0)[-1].clone(),
    "product": lambda x: (x @ x.T)[2:4].clone(),
    "copied": lambda x: x.sin()[1:].to(x.dtype, copy=True),
    "reshaped": lambda x: x.sin()[:, 1:].reshape(-1),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("own", OWN)
def test_a_copy_of_a_part_does_not_hold_the_whole(own, compiler):
    """It was a window on the memory that the part was copied from: `x[-1].clone()`, made to let go of x, kept all of it."""
    torch._dynamo.reset()
    x = torch.randn(6, 5)
    ours, eagers = COMPILERS[compiler](OWN[own])(x), OWN[own](x)
    assert_same(ours, eagers)
    assert lies(ours) == lies(eagers)


def image(x):
    y = x.reshape(1, 2, 3, 5).permute(0, 3, 1, 2) / 255
    return y[0, 0, 0, 0], y[:, 1]


def several(make):
    def made(x):
        y = make(x)
        return y, y.detach(), y[:1]

    return made


GROUPS = {
    "an_element_and_a_row": lambda x: (lambda b: (b[0, 0], b[1]))(x.t() * 2),
    "a_corner_and_the_rest": lambda x: (lambda b: (b[:1, :1], b[1:]))(x.t() * 2),
    "an_element_and_a_channel": image,
    "a_copied_row": several(lambda x: x[-1].clone()),
    "a_copied_column": several(lambda x: x[:, 0].contiguous()),
    "copied_rows": several(lambda x: x[-2:].clone()),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("group", GROUPS)
def test_results_of_one_memory_lie_where_eagers_do(group, dynamic, compiler):
    """The first of them decided in which order the memory lies, and one element suits every order; a shared copy of a part held the whole."""
    torch._dynamo.reset()
    x = torch.randn(6, 5)
    for ours, eagers in zip(COMPILERS[compiler](GROUPS[group], dynamic=dynamic)(x), GROUPS[group](x)):
        assert_same(ours, eagers)
        assert lies(ours) == lies(eagers)


def test_parts_with_gaps_are_not_given_memory_of_their_own_each():
    """In training: 1024 rows with eager's strides, each in a storage as large as all of them."""
    x = torch.randn(16, 1024, 64, requires_grad=True)
    with warnings.catch_warnings():
        # It is told once in a process.
        warnings.filterwarnings("ignore", "oxytorch: this graph runs in eager")
        parts = oxytorch.compile(lambda x: (x * 2).unbind(1))(x)
    assert len({part.untyped_storage().data_ptr() for part in parts}) == 1
    whole = oxytorch.compile(lambda x: (x * 2).unbind(0))(x)
    assert sum(part.untyped_storage().nbytes() for part in whole) == 4 * x.numel()


ORDERS = {
    "last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "turned": lambda x: x.transpose(1, 3),
    "round": lambda x: x.permute(0, 2, 3, 1),
}

LITTLE = {
    "element": lambda y: y[1, 1, 1, 1],
    "one": lambda y: y[1:2, 1:2, 1:2, 1:2],
    "row": lambda y: y[1, :, 1, 1],
    "element and row": lambda y: (y[0, 1, 2, 1], y[1, 1, :, 1]),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("little", LITTLE)
@pytest.mark.parametrize("order", ORDERS)
def test_what_fits_many_orders_lies_in_eagers(order, little, compiler):
    """An element has no strides, and a row has one: where they begin tells in which order the whole lies."""
    function = lambda x: LITTLE[little](ORDERS[order](x) * 2)
    torch._dynamo.reset()
    x = torch.randn(2, 3, 4, 5)
    ours, eagers = COMPILERS[compiler](function)(x), function(x)
    assert_same(ours, eagers)
    as_list = lambda result: list(result) if isinstance(result, tuple) else [result]
    assert [lies(t) for t in as_list(ours)] == [lies(t) for t in as_list(eagers)]
