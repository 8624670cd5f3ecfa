"""What the models of the libraries do, as small functions: captured in one graph that later calls use again."""

import torch
from test_capture import check, x


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, factor):
        ctx.save_for_backward(t)
        ctx.factor = factor
        return t * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def test_autograd_function_without_gradients():
    check(lambda t: Doubling.apply(t, 2) + 1, (x(),))


BY_CLASS = {int: 1, torch.Tensor: 2}


def keyed_by_classes(t):
    own = {}
    own[type(t)] = BY_CLASS[type(t)]
    return t * own[torch.Tensor] + BY_CLASS[int]


HINT, EITHER = dict[str, int], int | str


def parts_of_hints(t):
    return t + len(HINT.__args__), HINT.__origin__, EITHER.__args__[1]


def test_classes_as_keys_and_hints():
    check(keyed_by_classes, (x(),))
    check(parts_of_hints, (x(),))
