"""Sizes that vary, in what a program builds of them and asks of them."""

import collections
import enum

import oxytorch
import pytest
import torch
import torch.nn as nn
from compare import assert_same
from dynamic import check, rand


# Sizes in what the program builds.


Pair = collections.namedtuple("Pair", "rows columns")


class Zeros(nn.Module):
    def forward(self, x, rows=None):
        return x.new_zeros(rows, 2)


ZEROS = Zeros()


def in_a_closure(x):
    rows, columns = x.shape
    flat = lambda y: y.reshape(rows * columns)
    return flat(x), sum(y.reshape(columns, rows).sum(1) for y in (x, x + 1))


def in_a_changed_closure(x):
    rows = x.shape[0]
    make = lambda: x.new_zeros(rows)
    before = make()
    rows = 4
    return before, make(), rows


def in_a_cell_that_is_read(x):
    rows = x.shape[0]
    inner = lambda: rows
    return x * inner.__closure__[0].cell_contents, inner()


def in_a_named_tuple(x):
    pair = Pair(x.shape[0], x.shape[1] + 1)
    return x.reshape(-1, pair.rows) * pair.columns, pair, pair[0], tuple(pair)


def in_a_list(x):
    sizes = [None, 7]
    sizes[0] = x.size(0)
    sizes.append(2)
    sizes[-1] = x.size(1)
    return x.new_zeros(sizes), sizes, len(sizes)


def in_lists_that_are_joined_and_cut(x):
    sizes = [1] + list(x.shape)
    return x.reshape(sizes), x.new_zeros(sizes[1:]), x.new_zeros(sizes[::-1]), sizes


def in_a_dict(x):
    sizes = {}
    sizes["n"] = x.shape[0]
    return x.new_zeros(size=(sizes["n"], 2)), sizes


def in_keywords_of_a_module(x):
    return ZEROS(x, rows=x.shape[0])


def divided_by_a_number_of_an_object(x):
    return x.shape[0] // ZEROS.step, x.shape[1] % ZEROS.step, x + x.shape[1] * ZEROS.step


ZEROS.step = 2


@pytest.mark.parametrize(
    "function",
    [
        in_a_closure,
        in_a_changed_closure,
        in_a_cell_that_is_read,
        in_a_named_tuple,
        in_a_list,
        in_lists_that_are_joined_and_cut,
        in_a_dict,
        in_keywords_of_a_module,
        divided_by_a_number_of_an_object,
    ],
)
def test_sizes_stay_sizes(function):
    check(function, [(rand(n, m),) for n, m in ((4, 6), (5, 3), (4, 9), (9, 4), (4, 4))])


def test_a_list_of_sizes_that_grows_stays_the_list_that_it_is():
    def function(x):
        sizes = list(x.shape)
        same = sizes
        sizes += [1]
        return x.reshape(same), sizes is same

    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n, m in ((4, 6), (5, 3), (4, 9)):
        x = rand(n, m)
        assert_same(captured(x), function(x))


def test_what_replaces_a_size_is_no_size():
    def f(x):
        rows, sizes, table = x.shape[0], [x.shape[0], 1], {"n": x.shape[0]}
        show = lambda: rows
        rows, sizes[0], table["n"] = 4, 4, 4
        return show(), sizes, table, x * 2

    check(f, [(rand(4, 2),), (rand(6, 2),), (rand(4, 3),)])


class Word(str, enum.Enum):
    A = "a"


def keys_that_are_equal(x):
    n = x.shape[0]
    pairs = {}
    for i in range(2):
        pairs[(i, i + 1)] = n + i
    numbers, words = {1: n}, {"a": n}
    before = numbers[1.0], words[Word.A]
    numbers[True] = n * 2
    words[Word.A] = n + 5
    gone = {1: n}
    del gone[True]
    gone[1.0] = 5
    return [pairs[(i, i + 1)] for i in range(2)], before, numbers, words, words["a"], gone, gone[1]


def test_sizes_under_keys_that_are_equal_but_others():
    calls = [(rand(n),) for n in (4, 5, 9, 2)]
    captured = oxytorch._oxytorch.capture(keys_that_are_equal, dynamic=True)
    for args in calls:
        assert captured(*args) == keys_that_are_equal(*args)


# Questions about sizes.


def masked(x, mask):
    """As models ask whether attention is causal."""
    causal = x.shape[0] > 1 and mask is None and True
    return (x.sum(0) if causal else x.mean(0)), causal


def otherwise(x, flag):
    same = x.shape[0] == 1 or flag is True
    return x * 2 if same else x + 1, same


def nested(x, mask):
    if x.shape[0] > 1 and mask is None:
        return x.sum(0)
    return x.mean(0)


@pytest.mark.parametrize("function, flag", [(masked, 0), (otherwise, True), (nested, 0)])
def test_a_question_that_makes_no_difference(function, flag):
    check(function, [(rand(n, 3), flag) for n in (5, 1, 4, 1)])


@pytest.mark.parametrize("function, flag", [(masked, None), (otherwise, False), (nested, None)])
def test_a_question_that_makes_a_difference(function, flag):
    check(function, [(rand(n, 3), flag) for n in (5, 1, 4, 1)], compiles=2)


def test_an_expansion_that_one_needs_not():
    def f(x, rows):
        count = x.shape[0]
        if count != rows.shape[0]:
            rows = rows.expand(count, -1)
        return x + rows.cumsum(0)

    check(f, [(rand(n, 3), rand(1, 3)) for n in (5, 1, 4, 1)])

    def other(x, rows):
        count = x.shape[0]
        if count != rows.shape[0]:
            rows = rows.expand(count, 3)
            x = x + 1
        return x + rows

    check(other, [(rand(n, 3), rand(1, 3)) for n in (5, 1, 4, 1)], compiles=2)


def test_a_question_before_a_break():
    def f(x, y):
        return 1 if x.shape[0] > 2 and y.sum() > 0 else 2

    captured = oxytorch._oxytorch.capture(f, dynamic=True)
    for n, sign in ((4, 1), (2, 1), (4, -1), (2, -1), (5, 1)):
        x, y = rand(n, 3), torch.full((2,), float(sign))
        assert captured(x, y) == f(x, y)


def expands_unless_one(x, n):
    y = x
    if n.shape[0] != 1:
        y = x.expand(n.shape[0], -1)
    return y


def test_an_expansion_that_is_seen_is_no_other_tensor():
    captured = oxytorch._oxytorch.capture(expands_unless_one, dynamic=True)
    asks = oxytorch._oxytorch.capture(lambda x, n: (expands_unless_one(x, n) is x, x + 1), dynamic=True)
    x = torch.zeros(1, 3)
    for n in (4, 1, 7, 1):
        got = captured(x, rand(n))
        assert_same(got, expands_unless_one(x, rand(n)))
        assert (got is x) == (n == 1) == asks(x, rand(n))[0]


def _half(y):
    return y, y[::2].contiguous()


def _row(y):
    return y, y[::2].unsqueeze(0).contiguous()


def _reshaped(y):
    return y, y[::2].reshape(-1, 1), y.unsqueeze(1)[:, ::2].flatten()


@pytest.mark.parametrize("parts", [_half, _row, _reshaped])
@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("sizes", [(2, 6, 1, 8), (10, 2, 8, 1, 3)], ids=str)
def test_what_comes_out_is_a_copy_where_eager_copies(parts, dynamic, sizes):
    """At 2 there is one element in y[::2], which lies in order: nothing is copied, and two results share their memory."""
    compiled = oxytorch.compile(lambda x: parts(x * 2), dynamic=dynamic)
    for n in sizes:
        x = torch.arange(float(n))
        ours, eagers = compiled(x), parts(x * 2)
        assert_same(ours, eagers)
        for results in (ours, eagers):
            results[1].add_(5)
        assert_same(ours, eagers)


def test_what_lies_in_order_at_all_sizes_needs_no_code_for_one():
    compiled = oxytorch.compile(lambda x: (x * 2).contiguous().reshape(-1), dynamic=True)
    for n in (4, 1, 7):
        assert_same(compiled(torch.ones(n, 3)), torch.ones(n, 3).mul(2).reshape(-1))
    assert compiled.stats()["traced"] == 1


class Kept:
    def __init__(self):
        self.shape = None
        self.shapes = []
        self.counts = [0, 0]
        self.by_name = {}


def kept_as_attribute(x, kept):
    kept.shape = x.shape[:-1]
    return x * len(kept.shape) * kept.shape[0]


def kept_in_a_list(x, kept):
    kept.shapes.append(x.shape)
    kept.shapes.append(x.shape[0])
    return x * kept.shapes[-2][1] + kept.shapes[-1]


def kept_by_name(x, kept):
    kept.by_name["shape"] = [x.shape[0], 2]
    kept.by_name["rows"] = x.shape[0]
    return x * kept.by_name["shape"][0]


def put_in_a_place(x, kept):
    kept.counts[0] = x.shape[0]
    kept.counts[1] = x.shape[0] * x.shape[1]
    return x * kept.counts[0] + kept.counts[1]


def put_twice(x, kept):
    kept.counts[0] = x.shape[0]
    kept.counts[0] += 1
    kept.counts[-1] = 3
    return x * kept.counts[0]


@pytest.mark.parametrize("function", [kept_as_attribute, kept_in_a_list, kept_by_name, put_in_a_place, put_twice])
def test_sizes_that_are_kept_where_others_see_them(function):
    ours, eagers = Kept(), Kept()
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n, m in ((6, 4), (7, 4), (9, 5), (5, 3), (3, 9)):
        x = rand(n, m)
        if function is kept_in_a_list:
            # Whoever looks for an item relies on those before it.
            ours.shapes.clear(), eagers.shapes.clear()
        assert_same(captured(x, ours), function(x, eagers))
        assert vars(ours) == vars(eagers)
        assert [type(shape) for shape in ours.shapes] == [type(shape) for shape in eagers.shapes]
    assert captured.stats()["traced"] == 1, captured.show()
    assert captured.stats()["breaks"] == []


def moved_by_what_is_put_before(x, counts):
    counts[0] = x.shape[0]
    counts.insert(0, 7)
    return x * counts[1]


def taken_out_again(x, counts):
    counts.append(x.shape[0])
    return x * counts.pop()


def put_from_the_end(x, counts):
    counts[-2] = x.shape[0]
    return x * counts[0] + counts[1]


def put_by_slices(x, counts):
    counts[0] = x.shape[0]
    counts[:1] = [5, 6]
    return x * counts[0] + counts[1]


@pytest.mark.parametrize("function", [moved_by_what_is_put_before, taken_out_again, put_from_the_end, put_by_slices])
def test_sizes_that_are_moved_where_others_see_them(function):
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n in (6, 7, 6, 9, 7):
        x, ours, eagers = rand(n, 4), [1, 2], [1, 2]
        assert_same(captured(x, ours), function(x, eagers))
        assert ours == eagers


def test_a_cache_that_is_filled_up_to_a_place():
    def cache():
        keys, filled = torch.zeros(2, 96, 8), [0]

        def function(x):
            n = x.shape[1]
            if filled[0] + n > keys.shape[1]:
                filled[0] = 0
            keys[:, filled[0] : filled[0] + n] = x
            filled[0] += n
            known = keys[:, : filled[0]]
            return (x @ known.mT).softmax(-1) @ known

        return function

    function, captured = cache(), oxytorch._oxytorch.capture(cache())
    with torch.no_grad():
        for n in (5, 12, 33, 8, 17, 9, 21):
            x = rand(2, n, 8)
            assert_same(captured(x), function(x))
    # Both the length and what is filled change from the second call on, and once the cache begins anew.
    assert captured.stats()["traced"] <= 4, captured.show()
