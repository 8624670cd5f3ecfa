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
