"""Convolutions with many weights over few places: by columns and one product, without a second copy of the weights."""

import pytest
import torch
from compare import assert_same
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import oxytorch

COLUMNS = "aten::_slow_conv2d_forward"


def tensors(*shapes, dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def called(call):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    return {event.name for event in profiler.events()}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "size, window, stride, padding",
    [((8, 8), (3, 3), 1, 1), ((9, 6), (3, 2), (2, 1), (1, 0)), ((5, 7), (1, 1), 1, 0), ((16, 16), (3, 3), 2, 1), ((1, 1), (3, 3), 1, 1)],
)
def test_equal_to_eager_and_by_columns(size, window, stride, padding, bias):
    x, w, b = tensors((1, 384, *size), (256, 384, *window), (256,))
    if size == (5, 7):
        x, w = tensors((1, 1100, *size), (256, 1100, 1, 1))

    def f(x, w, b):
        return F.silu(F.conv2d(x * 1.5, w, b if bias else None, stride, padding)) + 1

    compiled = oxytorch.compile(f)
    for _ in range(2):
        assert_same(compiled(x, w, b), f(x, w, b), lambda: f(x.double(), w.double(), b.double()))
    assert COLUMNS in called(lambda: compiled(x, w, b))


def several_images():
    return tensors((2, 256, 8, 8), (256, 256, 3, 3))


def many_places():
    return tensors((1, 256, 14, 14), (256, 256, 3, 3))


def channels_last():
    x, w = tensors((1, 256, 8, 8), (256, 256, 3, 3))
    return x.contiguous(memory_format=torch.channels_last), w


def another_order_of_weights():
    x, w = tensors((1, 256, 8, 8), (256, 256, 3, 3))
    return x, w.contiguous(memory_format=torch.channels_last)


def halves():
    return tensors((1, 256, 8, 8), (256, 256, 3, 3), dtype=torch.bfloat16)


@pytest.mark.parametrize("given", [channels_last, another_order_of_weights])
def test_other_orders_of_memory(given):
    """Where the convolution itself is planned in torch's order, what comes in and goes out is copied."""
    x, w = given()
    f = lambda x, w: F.conv2d(x, w, None, 1, 1)
    assert_same(oxytorch.compile(f)(x, w), f(x, w), lambda: f(x.double(), w.double()))


@pytest.mark.parametrize("given", [several_images, many_places, halves])
def test_others_are_left_to_the_library(given):
    x, w = given()
    f = lambda x, w: F.conv2d(x, w, None, 1, 1)
    compiled = oxytorch.compile(f)
    assert_same(compiled(x, w), f(x, w), lambda: f(x.double(), w.double()))
    assert COLUMNS not in called(lambda: compiled(x, w))


def test_the_number_of_images_may_vary():
    """Each number has steps of its own."""
    (w,) = tensors((256, 256, 3, 3))
    f = lambda x, w: F.conv2d(x, w, None, 1, 1)
    compiled = oxytorch.compile(f)
    for count in (1, 3, 2, 1, 4, 1):
        (x,) = tensors((count, 256, 8, 8))
        # For several images the order of memory is channels-last, and its sums are eager's of that order.
        assert_same(compiled(x, w), f(x, w), lambda: f(x.double(), w.double()), times=8)
        assert (COLUMNS in called(lambda: compiled(x, w))) == (count == 1)


def test_gradients():
    x, w, b = tensors((1, 256, 8, 8), (256, 256, 3, 3), (256,))

    def gradients(f, dtype=torch.float32):
        leaves = [t.to(dtype).requires_grad_() for t in (x, w, b)]
        f(*leaves).square().mean().backward()
        return [leaf.grad for leaf in leaves]

    f = lambda x, w, b: torch.tanh(F.conv2d(x, w, b, 1, 1))
    assert_same(gradients(oxytorch.compile(f)), gradients(f), lambda: gradients(f, torch.float64))


def test_a_window_that_does_not_fit_is_refused_as_in_eager():
    x, w = tensors((1, 256, 2, 2), (256, 256, 5, 5))
    f = lambda x, w: F.conv2d(x, w)
    with pytest.raises(RuntimeError) as eager:
        f(x, w)
    with pytest.raises(RuntimeError) as ours:
        oxytorch.compile(f)(x, w)
    assert str(ours.value).splitlines()[0] == str(eager.value).splitlines()[0]
