"""Rows that are joined of parts, each computed in its own way, and what is summed up over them: many choices by the same conditions, one
inside of the other, in one kernel. A code generator that is confused by them may not come to an end."""

import pytest
import torch
import torch.nn.functional as F
from training import check

WAYS = (torch.exp, torch.sin, torch.cos, lambda t: t * 2, torch.tanh, lambda t: t + 1)

OVER = {
    "softmax": lambda y: y.softmax(1),
    "mean": lambda y: y * y.mean(1, keepdim=True),
    "variance": lambda y: y * y.var(1, keepdim=True),
    "squares": lambda y: y * (y * y).sum(1, keepdim=True),
    "normalize": lambda y: F.normalize(y, dim=1),
    "layer_norm": lambda y: F.layer_norm(y.transpose(1, 2), (y.shape[1],)),
}


def joined(over, count):
    def function(x):
        parts = x.chunk(count, 1)
        return over(torch.cat([way(part) for way, part in zip(WAYS, parts)], 1))

    return function


@pytest.mark.parametrize("count", [2, 3, 4, 6])
@pytest.mark.parametrize("name", OVER)
def test_parts_of_a_row(name, count):
    for size in (1, 2, 5):
        check(joined(OVER[name], count), torch.randn(2, count * size, 4, requires_grad=True), calls=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 12, 17), (2, 96, 3)])
def test_parts_of_other_types(dtype, shape):
    function = joined(OVER["softmax"], 3)
    check(function, torch.randn(shape).to(dtype).requires_grad_(), calls=1)


@pytest.mark.parametrize("name", OVER)
def test_parts_that_are_sums(name):
    def function(x):
        parts = [part.sum(1, keepdim=True) for part in x.chunk(3, 1)]
        return OVER[name](torch.cat(parts, 1)), OVER[name](torch.stack([part[:, 0] for part in parts], 1))

    check(function, torch.randn(2, 6, 4, requires_grad=True), calls=1)


def test_choices_by_place():
    def function(x):
        place = torch.arange(x.shape[1])[None, :, None]
        first, last = place < 1, place >= 2
        y = torch.where(first, x.exp(), torch.where(last, x.cos(), x.sin()))
        return torch.where(first | last, y, y * 2).softmax(1) * torch.where(last, y, torch.where(first, y, 0.0))

    for size in (3, 5, 40):
        check(function, torch.randn(2, size, 4, requires_grad=True), calls=1)
