"""`F.interpolate` by 'nearest' takes eager's elements: it finds them in f32 for images, in the tensor's type elsewhere, and gradients go as images do."""

import itertools

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from compare import assert_same

CASES = {
    "f64 image": ((1, 2, 27, 3), torch.float64, [(1.3, 2), (2.7, 1), (2.3, 1.9)]),
    "row": ((1, 2, 28), torch.float64, [2.6, 1.3, 2.7]),
    "doubled but for a little": ((1, 2, 9), torch.float32, [2.08, 1.04]),
    "volume": ((1, 2, 8, 2, 2), torch.float32, [(2.03, 1.3, 2.0), (1.1, 1, 1)]),
    "large image": ((1, 2, 18, 5), torch.bfloat16, [(2.01, 40.0), (1.01, 40.0)]),
    "large f64 image": ((1, 2, 39, 5), torch.float64, [(1.3, 40.0), (2.7, 40.0)]),
}


def checked(function, x):
    compiled = oxytorch.compile(function)
    ours, eagers = (value.clone().requires_grad_() for value in (x, x))
    results = [run(leaf) for run, leaf in ((compiled, ours), (function, eagers))]
    assert_same(*results)
    for result in results:
        (result * torch.linspace(0.5, 1.5, result.numel(), dtype=x.dtype).view(result.shape)).sum().backward()
    assert_same(ours.grad, eagers.grad)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("name", CASES)
def test_a_factor_leads_to_eagers_elements(name, mode):
    shape, dtype, factors = CASES[name]
    for factor, recomputed in itertools.product(factors, (None, True)):
        checked(lambda x: F.interpolate(x, scale_factor=factor, mode=mode, recompute_scale_factor=recomputed), torch.randn(shape).to(dtype))


def test_channels_side_by_side_are_an_image_of_any_size():
    x = torch.randn(1, 4, 18, 5, dtype=torch.float64)
    for layout in (torch.contiguous_format, torch.channels_last):
        checked(lambda x: F.interpolate(x, scale_factor=(2.01, 40.0), mode="nearest"), x.contiguous(memory_format=layout))


def test_an_exact_place_half_way_to_the_next_element():
    """Eager multiplies and subtracts in one step: with two roundings these are others."""
    x = torch.arange(80.0).view(1, 1, 80)
    halves = [(2, 41), (2, 47), (2, 107)]
    for length, size in halves:
        checked(lambda x: F.interpolate(x, size, mode="nearest-exact"), x[..., :length])


def test_sizes_that_vary():
    function = lambda x: F.interpolate(x, scale_factor=1.25, mode="nearest")
    for dtype, shapes in ((torch.float32, [(1, 2, n) for n in (5, 2, 3, 9)]), (torch.float64, [(1, 2, 9, n) for n in (5, 40, 130, 4)])):
        compiled = oxytorch.compile(function, dynamic=True)
        for shape in shapes:
            x = torch.randn(shape, dtype=dtype)
            assert_same(compiled(x), function(x))
        assert compiled.stats()["traced"] <= 2


LAID = {
    "computed": lambda x: x.abs(),
    "convolved": lambda x: F.conv2d(x, torch.ones(4, 4, 1, 1, dtype=x.dtype)),
    "turned": lambda x: x.permute(0, 3, 1, 2),
    "put in this order": lambda x: x.contiguous(memory_format=torch.channels_last),
    "put in rows": lambda x: x.contiguous(),
    "a copy": lambda x: x.clone(memory_format=torch.contiguous_format),
}


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("lay", LAID.values(), ids=LAID)
def test_what_is_computed_lies_as_in_eager(lay, mode):
    """Channels side by side go the way of images, whatever laid them so."""
    x = torch.randn(1, 4, 48, 52)
    rows = x.permute(0, 2, 3, 1).contiguous() if lay is LAID["turned"] else x
    laid = rows if lay is LAID["turned"] else x.contiguous(memory_format=torch.channels_last)
    for x, dtype, size in itertools.product((rows, laid), (torch.float32, torch.float64), ({"scale_factor": 2.01}, {"size": (77, 131)})):
        function = lambda x: F.interpolate(lay(x), **size, mode=mode)
        assert_same(oxytorch.compile(function)(x.to(dtype)), function(x.to(dtype)))
        named = lambda x: F.interpolate(input=lay(x), **size, mode=mode)
        assert_same(oxytorch.compile(named)(x.to(dtype)), named(x.to(dtype)))
