"""`t_`, `unsqueeze_` and their like: a tensor that has another shape from some call on, in graphs that are cut."""

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from compare import assert_same
from training import check, x


def transposed_view(t):
    view = (t * 1).permute(1, 0)
    view.t_()
    return view


def of_an_argument_that_was_computed(t):
    view = t.view(4, 4)
    view.t_()
    scaled = view * torch.arange(4.0)
    return scaled, scaled.sum(0)


def beside_a_part_that_is_seen(t):
    copy = t.clone()
    part = copy[0]
    copy.t_()
    copy[0] = 1
    return copy, part


def in_front_of_another_write(t):
    sine, other = t.detach().sin(), t * 1
    other[1:] *= 2
    sine.t_()
    return sine, other


def in_front_of_what_only_torch_differentiates(t):
    lines = t * 1
    lines.unsqueeze_(0)
    lines.squeeze_(0)
    lines.transpose_(0, 1)
    return F.rrelu(lines, training=False), torch.linalg.matrix_exp(lines).sum()


FUNCTIONS = [transposed_view, beside_a_part_that_is_seen, in_front_of_another_write, in_front_of_what_only_torch_differentiates]


# Square ones: sizes do not tell that the tensor has changed.
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_tensor_that_is_reshaped_in_another_piece(function):
    check(function, x(4, 4))


def test_an_argument_that_was_computed_is_viewed_and_reshaped():
    captured = oxytorch.compile(of_an_argument_that_was_computed)
    for seed in range(3):
        leaf = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
        ours, theirs = leaf.clone().requires_grad_(), leaf.clone().requires_grad_()
        got, want = captured(ours * 2), of_an_argument_that_was_computed(theirs * 2)
        assert_same([r.detach() for r in got], [r.detach() for r in want])
        sum(r.sum() for r in got).backward()
        sum(r.sum() for r in want).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_leaf_that_the_function_makes_is_reshaped():
    def f(t):
        sums = t.cumsum(-1)
        sums.requires_grad_()
        sums.unsqueeze_(0)
        return sums * 2, sums

    captured = oxytorch.compile(f)
    with torch.no_grad():
        for seed in range(3):
            t = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed))
            got, want = captured(t), f(t)
            assert [r.requires_grad for r in got] == [r.requires_grad for r in want]
            assert_same(got, want)
