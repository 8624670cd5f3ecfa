"""Pools, interpolation and windows over images of any size: one compile, eager's values and gradients at every size."""

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from compare import assert_same

SIZES = ((7, 10), (9, 12), (12, 6), (5, 5), (3, 4), (2, 4), (8, 16), (31, 17))
SMALLEST = ((1, 5), (1, 1))


def results(function, x, *others):
    x = x.clone().requires_grad_()
    y = function(x, *others)
    (grad,) = torch.autograd.grad((y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).view(y.shape)).sum(), x)
    with torch.no_grad():
        return y.detach(), grad, function(x, *others)


def check_images(function, sizes=SIZES, dtype=torch.float32, others=lambda h, w: ()):
    for dynamic, traces in ((None, 2), (True, 1)):
        captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
        for h, w in sizes:
            args = (torch.randn(2, 3, h, w, dtype=dtype), *others(h, w))
            assert_same(results(captured, *args), results(function, *args))
        # One for the grad mode, one without.
        assert captured.stats()["traced"] <= 2 * traces, captured.show()
        assert captured.stats()["breaks"] == []


POOLS = {
    "max": lambda x, **how: F.max_pool2d(x, **how),
    "max with indices": lambda x, **how: F.max_pool2d(x, return_indices=True, **how)[0],
    "average": lambda x, **how: F.avg_pool2d(x, **how),
    "average without the padding": lambda x, **how: F.avg_pool2d(x, count_include_pad=False, **how),
}


@pytest.mark.parametrize("window", [(2, 2, 0), (3, 2, 1), (3, 2, 0), (2, 3, 1), (3, 1, 1), (2, 4, 0)])
@pytest.mark.parametrize("name", POOLS)
def test_pools_whose_last_window_may_be_cut(name, window):
    size, stride, padding = window
    how = {"kernel_size": size, "stride": stride, "padding": padding, "ceil_mode": True}
    check_images(lambda x: POOLS[name](x * 2, **how) + 1, [sizes for sizes in SIZES if min(sizes) >= size])


def test_a_pool_fixes_no_other_size():
    weight = torch.randn(4, 3, 3, 3)
    function = lambda x: F.max_pool2d(F.conv2d(x, weight, padding=1).relu(), 3, 2, ceil_mode=True).mean((2, 3))
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n, h, w in ((4, 9, 12), (2, 8, 16), (3, 31, 17), (5, 16, 16)):
        x = torch.randn(n, 3, h, w)
        assert_same(captured(x), function(x))
    assert captured.stats()["traced"] == 1


LINEAR = [("bilinear", False), ("bilinear", True), ("bicubic", False)]
MODES = [*LINEAR, ("nearest", None), ("nearest-exact", None), ("area", None)]


@pytest.mark.parametrize("factor", [2, 3, 0.5, 1.5, 1.25, (2, 0.5)])
@pytest.mark.parametrize("mode,align", MODES)
def test_interpolation_by_a_factor(mode, align, factor):
    least = min(factor) if isinstance(factor, tuple) else factor
    sizes = SIZES if least < 1 else SIZES + SMALLEST
    check_images(lambda x: F.interpolate(x * 2, scale_factor=factor, mode=mode, align_corners=align) + 1, sizes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode,align", MODES)
def test_interpolation_to_a_size(mode, align, dtype):
    function = lambda x: F.interpolate(x * 2, size=(6, 9), mode=mode, align_corners=align) + 1
    check_images(function, SIZES + SMALLEST, dtype)


@pytest.mark.parametrize("mode,align", MODES)
def test_interpolation_to_the_size_of_another(mode, align):
    function = lambda x, y: F.interpolate(x * 2, size=y.shape[-2:], mode=mode, align_corners=align) + y
    check_images(function, SIZES, others=lambda h, w: (torch.randn(2, 3, 2 * h + 1, max(1, w - 2)),))


def test_columns_back_to_an_image():
    check_images(lambda x: F.fold(F.unfold(x * 2, 3, padding=1), x.shape[-2:], 3, padding=1) + 1)


@pytest.mark.parametrize("dynamic", [None, True])
def test_an_empty_image_has_no_windows(dynamic):
    function = lambda x: F.adaptive_avg_pool2d(x, (None, 4)) * 2
    captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
    for h in (5, 0, 6, 0):
        x = torch.randn(2, 3, h, 8)
        if h:
            assert_same(captured(x), function(x))
            continue
        with pytest.raises(RuntimeError) as eagers:
            function(x)
        with pytest.raises(RuntimeError) as ours:
            captured(x)
        assert str(ours.value) == str(eagers.value)


@pytest.mark.parametrize("before", ["convolution", "pool", "nothing"])
def test_features_of_a_fixed_size_are_trained_for_every_batch(before):
    """What is flattened must have as many features as the weights: nothing that derivatives could use, so that the graph was eager's."""
    steps = {"convolution": (lambda x: F.conv2d(x, kernel).relu(), 64), "pool": (lambda x: F.max_pool2d(x, 2), 27), "nothing": (torch.sin, 108)}
    step, features = steps[before]
    kernel, weight = torch.randn(4, 3, 3, 3), torch.randn(2, features)
    function = lambda x: F.linear(step(x).flatten(1), weight)
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n in (4, 2, 5, 3):
        x = torch.randn(n, 3, 6, 6)
        captured(x.clone().requires_grad_())
        assert oxytorch.last_compile()["outcome"] == "compiled"
        assert_same(results(captured, x), results(function, x))
    assert captured.stats()["traced"] == 2
