"""Intermediates of code for any sizes: packed for the sizes of each call, never on top of one another."""

import random

import measure
import oxytorch
import pytest
import torch
from arenas import free_idle_arenas
from compare import assert_same

WIDTH = 32
STEPS = {
    "product": lambda a, b, w: a @ w,
    "softmax": lambda a, b, w: torch.softmax(a, -1),
    "twice": lambda a, b, w: torch.cat([a, a * 2]),
    "sums": lambda a, b, w: a.cumsum(0),
    "thrice": lambda a, b, w: a.repeat(3, 1).sin(),
    "both": lambda a, b, w: a.mean() + torch.tanh(b) @ w,
}


def program(seed):
    """Values of several sizes that live for different times."""

    def run(x, y, w):
        choose = random.Random(seed)
        values, results = [x, y], []
        for _ in range(14):
            step = STEPS[choose.choice(list(STEPS))]
            values.append(step(choose.choice(values), choose.choice(values), w))
            if len(values) > 6:
                values.pop(choose.randrange(len(values)))
            if choose.random() < 0.15:
                results.append(values[-1])
        return [value.mean(0) for value in values] + results

    return run


@pytest.mark.parametrize("seed", range(6))
def test_sizes_that_change(seed):
    function, w = program(seed), torch.randn(WIDTH, WIDTH, dtype=torch.float64) / 6
    compiled = oxytorch.compile(function, dynamic=True)
    for n, m in ((17, 9), (2, 300), (200, 4), (64, 64), (3, 2), (17, 9)):
        x, y = torch.randn(n, WIDTH, dtype=torch.float64), torch.randn(m, WIDTH, dtype=torch.float64)
        want = function(x, y, w)
        first = compiled(x, y, w)
        assert_same(compiled(x, y, w), want)
        assert_same(first, want)


def arena_bytes(dynamic, rows):
    """What a compiled function keeps after a call with so many rows: which of two sizes is larger is not known when it is compiled."""
    free_idle_arenas()
    torch.manual_seed(0)
    layers = [torch.randn(WIDTH, WIDTH) / 6 for _ in range(4)]

    def function(x, y):
        for layer in layers:
            x = torch.softmax((x @ layer).cumsum(0), -1)
            y = torch.softmax((y @ layer).cumsum(0), -1) + x.mean(0)
        return y.sum()

    compiled = oxytorch.compile(function, dynamic=dynamic)
    for sizes in ((5, 7), rows) if dynamic else (rows,):
        compiled(*(torch.randn(n, WIDTH) for n in sizes))
    return measure.arena_mb("oxytorch")


@pytest.mark.parametrize("rows", [(64, 640), (1000, 300)])
def test_the_general_code_keeps_no_more_than_the_static_code(rows):
    assert 0 < arena_bytes(True, rows) <= arena_bytes(False, rows)
