"""Sizes that vary: numbers that are made of them, how results and inputs lie in memory."""

import math
import warnings

import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from compare import assert_same
from dynamic import check, rand


# Sizes as numbers.


def test_pointwise_takes_any_size():
    check(lambda x: (x * 2 + 1).relu(), [(rand(n, 7),) for n in (3, 8, 64, 2, 1000)])


def test_equal_sizes_are_one_variable():
    check(lambda x, y: x + y, [(rand(n, m), rand(n, m)) for n, m in ((3, 4), (5, 6), (9, 2))])


def test_sizes_that_were_equal_by_chance_are_told_apart():
    check(lambda x: x.sum(0) + x.sum(1).mean(), [(rand(4, 4),), (rand(4, 5),), (rand(7, 9),), (rand(2, 3),)], compiles=2)


def test_what_must_be_equal_is_relied_on():
    f = lambda x, w: x @ w
    w = rand(6, 3)
    captured = check(f, [(rand(n, 6), w) for n in (4, 5, 9)])
    with pytest.raises(RuntimeError):
        captured(rand(4, 7), w)


def test_shapes_are_numbers_with_a_source():
    def f(x):
        b, n, d = x.shape
        return x.view(b, n, 2, d // 2).transpose(1, 2).reshape(b * 2, n, -1) + x.size(-2) * len(x)

    check(f, [(rand(b, n, 8),) for b, n in ((2, 3), (5, 7), (3, 2), (4, 4))])


COPIES = {
    "contiguous": lambda x: x[:, :4].contiguous(),
    "contiguous_part": lambda x: x[:, x.shape[1] // 8 :].contiguous(),
    "reshape": lambda x: x[:, :4].reshape(-1),
    "flatten": lambda x: x[:, :4].flatten(),
    "ravel": lambda x: x[:, :4].ravel(),
    "of_an_intermediate": lambda x: (x + 1)[:, :4].contiguous(),
    "transposed": lambda x: x.t().reshape(x.shape),
    "columns": lambda x: x[:, ::2].ravel(),
}


@pytest.mark.parametrize("function", COPIES.values(), ids=COPIES)
def test_what_is_a_copy_and_what_a_view_is_asked_at_every_size(function):
    captured = oxytorch._oxytorch.capture(lambda x: (function(x).add_(1), x), dynamic=True)
    with torch.no_grad():
        for n, m in ((3, 6), (3, 4), (3, 9), (6, 6), (4, 2), (3, 6)):
            x, y = torch.zeros(n, m), torch.zeros(n, m)
            assert_same(captured(x), (function(y).add_(1), y))


ANSWERS = {
    "is_contiguous": lambda x, y: x[:, :4].is_contiguous(),
    "narrow": lambda x, y: x.narrow(1, 0, 2).is_contiguous(),
    "of_an_intermediate": lambda x, y: (x + 1)[:, :4].is_contiguous(),
    "is_same_size": lambda x, y: x.is_same_size(y),
    "with_constants": lambda x, y: torch.zeros(3, 6).is_same_size(x),
}


@pytest.mark.parametrize("function", ANSWERS.values(), ids=ANSWERS)
def test_answers_that_depend_on_sizes(function):
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n, m in ((3, 6), (3, 4), (5, 6), (3, 2), (3, 6)):
        x, y = rand(n, m), rand(5, 6)
        assert captured(x, y) == function(x, y)


def test_parts_of_shapes():
    def f(x):
        front = x.shape[:-1]
        return x.view(*front, 4, -1).transpose(-2, -3), x.new_zeros(front + (2,)), torch.ones([*front, 3])

    check(f, [(rand(b, n, 8),) for b, n in ((2, 3), (5, 7), (3, 2))])


def test_slices_by_sizes():
    def f(x, y):
        n = y.shape[0]
        return x[:n] + y, x[-n:], x[n // 2 : n], x[: n - 1]

    check(f, [(rand(20, 3), rand(n, 3)) for n in (4, 5, 19, 7)])


def test_arange_and_masks():
    def f(x):
        n = x.shape[1]
        places = torch.arange(n)
        mask = torch.full((n, n), float("-inf")).triu(1)
        return x + places[None, :] + torch.softmax(mask, -1).sum(0) + torch.tril(torch.ones(n, n)).sum()

    check(f, [(rand(2, n),) for n in (5, 3, 17)])


def test_expand_and_numel():
    def f(x):
        return x[:, None].expand(x.shape[0], 3, x.shape[1]).sum() / x.numel(), x.unsqueeze(0).expand(2, -1, -1)

    check(f, [(rand(n, m),) for n, m in ((5, 3), (2, 7), (9, 8))])


def test_comparisons_split_traces():
    def f(x):
        return x.sum(1) if x.shape[1] > 8 else x.mean(1)

    check(f, [(rand(3, n),) for n in (4, 5, 8, 9, 20, 3)], compiles=2)


def test_loops_fix_sizes():
    def f(x):
        total = x[:, 0]
        for n in range(1, x.shape[1]):
            total = total + x[:, n] * n
        return total

    check(f, [(rand(b, 3),) for b in (4, 5, 9)] + [(rand(4, 5),)], compiles=2)


def test_sizes_leave_the_function():
    def f(x):
        return x.shape, x.shape[0] * 2, {"n": x.shape[1], "s": slice(0, x.shape[0])}, [x.numel(), f"{len(x.shape)}"]

    check(f, [(rand(n, m),) for n, m in ((5, 3), (2, 7), (9, 8))])


def test_a_replaced_size_is_not_the_size():
    def f(x):
        places = [x.shape[0], 1]
        places[0] = 5
        entries = {"n": x.shape[0]}
        entries["n"] = 5
        return x + places[0] + entries["n"]

    check(f, [(rand(5, 2),), (rand(6, 2),)])


def test_sizes_as_keys_are_fixed():
    def f(x, table={3: 1.0, 4: 2.0, (4, 2): 3.0}):
        return x * table[x.shape[0]] * table.get((x.shape[0], x.shape[1]), 1.0)

    check(f, [(rand(3, 2),), (rand(4, 2),)], compiles=2)


def test_a_size_of_1_is_one_of_many():
    check(lambda x: (x * 2).sum(0), [(rand(n, 3),) for n in (4, 1, 7)])
    check(lambda x: torch.softmax(x @ x.transpose(-1, -2), -1) @ x, [(rand(b, n, 8),) for b, n in ((3, 5), (1, 7), (4, 1), (1, 1))])
    check(lambda x: x.transpose(1, 2).reshape(x.shape[0], -1) + 1, [(rand(b, n, 4),) for b, n in ((3, 5), (1, 5), (3, 1))], compiles=3)


def test_where_1_means_something_else():
    check(lambda x, y: x + y, [(rand(n, 3), rand(4, 3)) for n in (4, 1)], compiles=2)
    check(lambda x: x.squeeze(0) * 2, [(rand(n, 3),) for n in (4, 1, 5)], compiles=2)
    # How a computed tensor lies is decided by its sizes: here they are constants.
    check(lambda x: x * 2 if x.t().is_contiguous() else x + 1, [(rand(n, 3),) for n in (4, 1, 5)], compiles=3)
    check(lambda x: x.sum(0), [(rand(n, 3),) for n in (1, 4, 1, 7)], compiles=2)


def test_nothing_is_a_constant():
    check(lambda x: x.sum(0), [(rand(n, 3),) for n in (4, 0, 7)], compiles=2)


def test_a_copy_that_is_a_view_for_size_1():
    def f(x):
        flat = x.t().reshape(-1)
        flat.add_(1)
        return x * 1

    wrapped = oxytorch._oxytorch.capture(f, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 1):
            x = rand(n, 4)
            y = x.clone()
            assert_same(wrapped(x), f(y))
            assert_same(x, y)


# Multiples.


class Hourglass(nn.Module):
    """Down twice and up again, with what was there before beside it."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.up = nn.Conv2d(2, 2, 3, 2, 1), nn.Conv2d(2, 2, 3, 2, 1), nn.Upsample(scale_factor=2)

    def forward(self, x):
        half = self.first(x)
        back = torch.cat([self.up(self.second(half)), half], 1)[:, 1:3]
        return torch.cat([self.up(back), x], 1)


def test_sizes_that_are_halved_and_doubled():
    model = Hourglass().eval()
    captured = check(model, [(rand(2, 2, h, w),) for h, w in ((8, 12), (4, 20), (16, 4))])
    for shape in ((8, 10), (7, 12)):
        with pytest.raises(RuntimeError):
            captured(rand(2, 2, *shape))


def test_views_that_divide():
    def f(x):
        return x.view(x.shape[0] // 2, 2, x.shape[1]).sum(1), x.unflatten(1, (3, -1)), x.reshape(-1, x.shape[1] // 3, 3)

    captured = check(f, [(rand(n, m),) for n, m in ((4, 6), (10, 3), (2, 12))])
    with pytest.raises(RuntimeError):
        captured(rand(3, 6))


# Memory.


def test_views_of_inputs_are_views():
    def f(x):
        return x[:, 1:], x.transpose(0, 1), x.view(-1)

    captured = check(f, [(rand(n, m),) for n, m in ((5, 3), (2, 7), (9, 8))])
    x = rand(4, 6)
    part, turned, flat = captured(x)
    x.zero_()
    assert not part.any() and not turned.any() and not flat.any()


def test_outputs_lie_as_eagers_do():
    def f(x):
        y = x.relu()
        return y[:, 0], y[:, -1], y.transpose(1, 2), y.permute(2, 0, 1) * 2, y[:, :, :2]

    check(f, [(rand(b, n, 4),) for b, n in ((2, 3), (5, 7), (3, 2))])


def test_inputs_in_other_orders():
    f = lambda x: (x * 2, x.reshape(-1), x.contiguous())
    check(f, [(rand(m, n).t(),) for n, m in ((5, 3), (2, 7), (9, 8))])
    check(f, [(rand(n, 9)[:, 2:6],) for n in (5, 3, 7)])
    check(f, [(rand(n, 1).expand(n, 6),) for n in (5, 3, 7)])


def test_inputs_are_written():
    def f(x):
        x.add_(1)
        x[:, 0] = x.shape[0]
        return x * 2

    wrapped = oxytorch._oxytorch.capture(f, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 9, 3):
            x = rand(n, 4)
            y = x.clone()
            assert_same(wrapped(x), f(y))
            assert_same(x, y)
    assert wrapped.stats()["traced"] == 1


@pytest.mark.parametrize("affine", [True, False])
def test_groups_of_channels_that_are_not_known(affine):
    """What divides a size that varies is checked; it was left to torch, with all sizes of the argument."""
    norm = nn.GroupNorm(3, 6, affine=affine)
    captured = oxytorch._oxytorch.capture(lambda x: norm(x), dynamic=True)
    with torch.no_grad():
        for batch, height, width in ((2, 5, 7), (3, 8, 9), (5, 12, 4), (2, 1, 6)):
            x = rand(batch, 6, height, width)
            assert_same(captured(x), norm(x))
    assert captured.stats()["traced"] == 1, captured.report()["recompiles"]


def test_groups_that_do_not_divide():
    captured = oxytorch._oxytorch.capture(lambda x: F.group_norm(x, 3), dynamic=True)
    for channels in (6, 9, 12):
        x = rand(2, channels, 4)
        assert_same(captured(x), F.group_norm(x, 3))
    with pytest.raises(RuntimeError, match="divisible by"):
        captured(rand(2, 7, 4))


# Graphs that eager runs.

NUMBERS_OF_SIZES = {
    "parts": lambda x: torch.stack([part.sum() for part in x.split(2)]),
    "how many parts": lambda x: torch.zeros(3) + len(x.split(2)),
    "rows": lambda x: torch.stack([row * 2 for row in x.unbind(0)]),
    "a shape": lambda x: torch.ones(torch.cat([x, x]).shape[0]),
    "a number": lambda x: x[::2].unfold(0, 2, 1).size(0),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", NUMBERS_OF_SIZES)
def test_a_graph_that_is_not_imported_is_for_its_sizes(name, dynamic):
    """What torch said of the sizes stands in the graph, and what would have been relied on is not known."""

    still = rand(2, 4)

    def function(x):
        # A result that shows an input as another type is refused.
        shown = still.view(torch.int32)
        return NUMBERS_OF_SIZES[name](x), shown

    captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
    for n in (4, 6, 8, 12, 6, 4, 10):
        x = rand(n, 4)
        assert_same(captured(x), function(x))
    assert oxytorch.last_compile()["outcome"] == "eager"


def test_an_empty_part_where_all_sizes_are_fixed():
    """`chunk` fixes all sizes; what is left of its results is a part of them that holds nothing."""

    def f(x):
        y = torch.cat(x.chunk(2, 1), 1)[:, :-40]
        return y.contiguous().view(y.shape[0], -1, 2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(f, [(rand(2, 3, 4),), (rand(3, 4, 4),), (rand(4, 6, 2),), (rand(2, 3, 4),)], compiles=3)


# Numbers that are computed of sizes, and no expressions of them.


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, : int(x.shape[1] * 0.5)],
        lambda x: x[:, int(x.shape[1] * 0.3) :] * 2,
        lambda x: x[:, : math.ceil(x.shape[1] / 4)],
        lambda x: x[:, math.floor(x.shape[1] / 4) :] + 1,
        lambda x: torch.zeros(round(x.shape[1] / 2)) + x.shape[1] * 0.1,
        lambda x: x.topk(max(1, int(x.shape[1] * 0.25)), 1),
        lambda x: x.gather(1, x.argsort(1)[:, : int(x.shape[1] * (1 - 0.75))]),
        lambda x: torch.cat([x[:, int(x.shape[1] * 0.6) :], x[:, : int(x.shape[1] * 0.6)]], 1),
        lambda x: (x[:, : int(int(x.shape[1] * 0.9) * 0.5)], int(x.shape[1] * 0.9)),
    ],
)
def test_a_part_of_a_size(function):
    check(function, [(rand(3, n),) for n in (17, 12, 13, 20, 64, 99, 31, 1000)])
    check(function, [(rand(3, n),) for n in (17, 12, 13, 20, 64, 99)], dynamic=None, compiles=2)


def test_the_side_of_a_square():
    """The tokens of an image, as many as patches: `n` is `h * h` from there on."""

    def f(x):
        h = int(x.shape[1] ** 0.5)
        return x.view(x.shape[0], h, h).transpose(1, 2).flatten(1) + 1

    check(f, [(rand(b, n),) for b, n in ((3, 16), (4, 25), (2, 64), (5, 100))])
    check(f, [(rand(3, n),) for n in (16, 25, 36, 64, 100)], dynamic=None, compiles=2)


def test_a_part_of_a_size_by_an_argument():
    def f(x, ratio):
        return x[:, : int(x.shape[1] * ratio)] + 1

    check(f, [(rand(3, n), r) for n, r in ((20, 0.5), (21, 0.3), (22, 0.7), (50, 0.9), (33, 0.2))], dynamic=None, compiles=2)
