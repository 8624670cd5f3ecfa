"""Results of a training step that the function writes before it returns them."""

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from training import DOORS, check

both = pytest.mark.parametrize("door", DOORS)


def written_by_a_view(t):
    y = t.clone()
    y[:, 0] *= 2
    return y, y.flip(2)


def written_twice(t):
    y = t * 2
    y[:, 0].add_(1)
    y[..., 1].mul_(3)
    return y, y.exp().sum(), y.sigmoid()


def used_before(t):
    y = t * 2
    z = y + 1
    y[:, 0].add_(1)
    return y, z, y * z


def seen_by_an_earlier_view(t):
    y = t * 2
    part = y[:, 0]
    part.mul_(2)
    return y, part.sin(), y.cos()


def written_without_grad(t):
    y = t * 2
    z = y * 3
    with torch.no_grad():
        y.add_(1)
    return y, z


def written_when_detached(t):
    y = t * 2
    z = y * 3
    y.detach().add_(1)
    return y, z


WRITTEN_AND_RETURNED = [written_by_a_view, written_twice, used_before]


@both
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("function", WRITTEN_AND_RETURNED, ids=lambda f: f.__name__)
def test_a_result_that_was_written_by_views_is_compiled(function, batch, dynamic, door):
    check(function, torch.randn(batch, 3, 5, 4, requires_grad=True), door=door, quiet=False, dynamic=dynamic)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "function",
    [*WRITTEN_AND_RETURNED, seen_by_an_earlier_view, written_without_grad, written_when_detached],
    ids=lambda f: f.__name__,
)
def test_gradients_flow_through_a_result_that_was_written(function, batch):
    """Of what is made behind its last write, and of nothing that was made before."""

    def gradients(called):
        torch.manual_seed(0)
        t = torch.randn(batch, 3, 5, 4, requires_grad=True)
        seen = []
        first, *others = called(t)
        first.register_hook(lambda grad: seen.append(grad.clone()))
        kept = [torch.autograd.grad(z.sum(), first, allow_unused=True, retain_graph=True)[0] for z in others]
        (first.sum() + sum((z * z).sum() for z in others)).backward()
        return seen, [k if k is not None else 0 for k in kept], t.grad

    called = oxytorch.compile(function, dynamic=True)
    for _ in range(2):
        compare.assert_same(gradients(called), gradients(function), strides=False)


MASK_WRITES = {
    "a number": lambda mask: mask.mul_(0.5),
    "a view": lambda mask: mask[:, 1:].add_(1),
    "a flag": lambda mask: F.dropout(mask, 1.0, inplace=True),
}


@both
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("write", MASK_WRITES)
def test_what_the_function_writes_later_is_copied_for_gradients(write, dynamic, door):
    """However large it is: eager keeps something else, and has no reason to complain of the write."""

    def function(t, w):
        h = t @ w
        best, where = h.topk(1, -1)
        mask = F.one_hot(where.squeeze(-1), h.shape[-1]).to(h.dtype)
        second, _ = (h * (1 - mask)).topk(1, -1)
        left = (h * mask.cos()).sum(-1)
        both, _ = (h + left[:, None]).topk(2, -1)
        MASK_WRITES[write](mask)
        return left, mask, best, second, both

    t, w = torch.randn(200, 8, dtype=torch.float64), torch.randn(8, 150, dtype=torch.float64, requires_grad=True)
    check(function, t, w, door=door, dynamic=dynamic)
