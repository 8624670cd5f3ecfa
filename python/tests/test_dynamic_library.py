"""Calls that only torch can make, of sizes that vary: they stand between two graphs, and nothing is traced for one size."""

import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from compare import assert_same

SIZES = ((7, 10), (9, 11), (12, 6), (5, 5), (3, 4), (8, 16))


def results(function, x):
    x = x.clone().requires_grad_()
    outputs = function(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum(y.square().sum() for y in outputs).backward()
    return *(y.detach() for y in outputs), x.grad


def check_calls(function, make, dynamic):
    captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
    for sizes in SIZES:
        x = make(*sizes)
        with torch.no_grad():
            assert_same(captured(x), function(x))
    assert captured.stats()["traced"] <= (1 if dynamic else 2), captured.show()
    captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
    for sizes in SIZES:
        x = make(*sizes)
        assert_same(results(captured, x), results(function, x))
    assert captured.stats()["traced"] <= (1 if dynamic else 2), captured.show()
    assert captured.stats()["breaks"] == []


def image(h, w):
    return torch.randn(2, 3, h, w)


def spectrum(x):
    return torch.fft.irfft(torch.fft.rfft(x * 2, dim=-1) * 0.5, n=x.shape[-1], dim=-1) + 1


def mixed(x):
    return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real.relu() + 1


def sampled(x):
    grid = F.affine_grid(torch.eye(2, 3).expand(x.shape[0], 2, 3) * 0.9, list(x.shape), align_corners=False)
    return F.grid_sample(x * 2, grid, align_corners=False) + 1


def unpooled(x):
    return F.max_unpool2d(*F.max_pool2d(x * 2, 2, return_indices=True), 2, output_size=x.shape[-2:]) + 1


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [spectrum, mixed, sampled, unpooled])
def test_functions_that_the_table_does_not_know(function, dynamic):
    check_calls(function, image, dynamic)


@pytest.mark.parametrize("dynamic", [None, True])
def test_short_transforms_of_a_signal(dynamic):
    window = torch.hann_window(4)
    function = lambda x: torch.stft(x * 2, 4, 2, window=window, return_complex=True).abs() + 1
    captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
    for batch, length in SIZES:
        x = torch.randn(batch, 4 * length)
        assert_same(captured(x), function(x))
    assert captured.stats()["traced"] <= (1 if dynamic else 2)


@pytest.mark.parametrize("dynamic", [None, True])
def test_functions_that_look_at_values_inside(dynamic):
    """torch's kernels for shapes refuse what they are made of: that was a break, with sizes that were constants behind it."""
    window = torch.hann_window(16)

    def there_and_back(x):
        bands = torch.stft(x * 2, 16, 4, window=window, return_complex=True)
        return torch.istft(bands * 2, 16, 4, window=window, length=x.shape[-1]) * 3

    for function in (there_and_back, lambda x: torch.cov(x.mT * 2) + 1):
        compiled = oxytorch.compile(function, dynamic=dynamic, fullgraph=True)
        for batch, length in SIZES:
            x = torch.randn(batch, 16 * length)
            assert_same(compiled(x), function(x))
        assert compiled.stats()["traced"] <= (1 if dynamic else 2)
        assert compiled.stats()["breaks"] == []


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind, layers, dynamic):
    recurrent, last = kind(8, 6, layers, batch_first=True, bidirectional=layers == 2), nn.Linear(6 * layers, 3)

    def function(x):
        y, state = recurrent(x * 2)
        state = state[0] if isinstance(state, tuple) else state
        return last(y).relu().mean(1), state

    check_calls(function, lambda batch, length: torch.randn(batch, length, 8), dynamic)


def test_such_a_call_is_allowed_in_one_graph():
    compiled = oxytorch.compile(spectrum, fullgraph=True, dynamic=True)
    for sizes in SIZES:
        x = image(*sizes)
        assert_same(compiled(x), spectrum(x))
