"""What models do with sizes, at many of them: at most two traces where none is said to vary, one where all are."""

import dataclasses
import functools
import math

import numpy as np
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from compare import assert_same
from dynamic import check, rand

LENGTHS = (7, 9, 12, 7, 5, 10, 16, 6)


def in_two(function, calls):
    check(function, calls, dynamic=True, compiles=1)
    check(function, calls, dynamic=None, compiles=2)


# Padded and cut to multiples.


def padded(x):
    b, t, d = x.shape
    return F.pad(x, (0, 0, 0, -t % 4)).view(b, -1, 4, d) * 2


def padded_by_the_rest(x):
    b, t, d = x.shape
    return F.pad(x, (0, 0, 0, (4 - t % 4) % 4)).view(b, -1, 4, d) * 2


def padded_and_unflattened(x):
    return F.pad(x, (0, 0, 0, -x.shape[1] % 4)).unflatten(1, (-1, 4)) * 2


def counted_in_two_ways(x):
    b, t, d = x.shape
    return F.pad(x, (0, 0, 0, -t % 4)).view(b, (t + 3) // 4, 4, d) * 2, -(-t // 4) == (t + 3) // 4


def padded_and_cut_again(x):
    b, t, d = x.shape
    y = F.pad(x, (0, 0, 0, -t % 4)).view(b, -1, 4, d)
    return ((y @ y.mT).softmax(-1) @ y).reshape(b, -1, d)[:, :t] * 2


def windows(x):
    b, h, w = x.shape
    y = F.pad(x, (0, -w % 4, 0, -h % 2))
    y = y.view(b, y.shape[1] // 2, 2, y.shape[2] // 4, 4).transpose(2, 3)
    return y.reshape(-1, 8) * 2


MULTIPLES = [padded, padded_by_the_rest, padded_and_unflattened, counted_in_two_ways, padded_and_cut_again, windows]


@pytest.mark.parametrize("function", MULTIPLES)
def test_lengths_are_padded_to_multiples(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


def asked_before_it_is_padded(x):
    b, t, d = x.shape
    if t % 4:
        x = F.pad(x, (0, 0, 0, 4 - t % 4))
    return x.view(b, -1, 4, d) * 2


def cut(x):
    b, t, d = x.shape
    t -= t % 4
    return x[:, :t].reshape(b, t // 4, 4, d) * 2


@pytest.mark.parametrize("function", [asked_before_it_is_padded, cut])
def test_a_multiple_goes_another_way(function):
    """A view there, and a copy at other lengths."""
    check(function, [(rand(2, n, 8),) for n in (9, 10, 12, 9, 16, 11, 8)], compiles=2)


# Triangles and places.


def behind_a_cache(q, k):
    t, s = q.shape[1], k.shape[1]
    return (q @ k.mT).masked_fill(torch.ones(t, s, dtype=torch.bool).triu(1 + s - t), -1e9), torch.ones(t, s).tril(s - t)


def test_diagonals_are_made_of_sizes():
    in_two(behind_a_cache, [(rand(2, 3, 8), rand(2, n, 8)) for n in LENGTHS])


def test_diagonals_are_made_of_numbers():
    def f(x, place):
        return torch.triu(torch.full((x.shape[1], x.shape[1] + place), -1e9), diagonal=place + 1)

    compiled = oxytorch.compile(f)
    for place in range(2, 9):
        x = rand(2, 4, 8)
        assert_same(compiled(x, place), f(x, place))
    assert compiled.stats()["traced"] <= 2


SPREAD = {
    "linspace": lambda x: x * torch.linspace(-1, 1, x.shape[1])[None, :, None],
    "linspace_of_sizes": lambda x: x * torch.linspace(0, x.shape[1] - 1, x.shape[1] * 3)[::3][None, :, None],
    "linspace_of_halves": lambda x: torch.linspace(0.1, 3, x.shape[1], dtype=torch.bfloat16),
    "linspace_of_doubles": lambda x: torch.linspace(0.1, x.shape[1], x.shape[1], dtype=torch.float64),
    "places_below": lambda x: torch.tril_indices(x.shape[1], x.shape[1]) * 2,
    "places_above": lambda x: torch.triu_indices(x.shape[1], x.shape[1], 2) * 2,
    "below_the_diagonal": lambda x: (x @ x.mT)[(slice(None), *torch.tril_indices(x.shape[1], x.shape[1], -1))],
    "pairs": lambda x: torch.cdist(x, x)[(slice(None), *torch.triu_indices(x.shape[1], x.shape[1], 1))],
    "reflected": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "reflected_to_a_multiple": lambda x: F.pad(x[:, None], (0, -x.shape[2] % 4, 0, -x.shape[1] % 4), mode="reflect"),
    "replicated": lambda x: F.pad(x, (x.shape[1] // 2, -x.shape[2] % 4), mode="replicate"),
    "around": lambda x: F.pad(x.mT, (x.shape[1] // 3, 2), mode="circular"),
}


@pytest.mark.parametrize("function", SPREAD.values(), ids=SPREAD)
def test_places_follow_from_sizes(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


def test_padding_is_refused_where_it_is_longer_than_the_dimension():
    function = lambda x: F.pad(x, (0, 5), mode="reflect")
    compiled = oxytorch.compile(function, dynamic=True)
    for n in (9, 7, 4, 6):
        x = rand(2, 3, n)
        if n > 5:
            assert_same(compiled(x), function(x))
            continue
        with pytest.raises(RuntimeError) as ours:
            compiled(x)
        with pytest.raises(RuntimeError) as eagers:
            function(x)
        assert str(ours.value) == str(eagers.value)


# Parts.


def halves_joined(x):
    front, back = x.chunk(2, 1)
    return torch.cat([back, front * 2], 1)


PARTS = {
    "chunk": lambda x: [part * 2 for part in x.chunk(3, 1)],
    "halves": halves_joined,
    "halves_with_gates": lambda x: torch.cat([x, x], 1).chunk(2, 1)[0] * 2,
    "split_by_a_size": lambda x: [part.sum(1) for part in x.split(x.shape[1] // 2 + 1, 1)],
    "split_by_sizes": lambda x: [part * 2 for part in x.split([x.shape[1] - 3, 3], 1)],
    "sections": lambda x: [part * 2 for part in x.tensor_split(3, 1)],
    "at_places": lambda x: [part * 2 for part in x.tensor_split((2, -2), 1)],
    "unbound": lambda x: torch.stack([part * 2 for part in x.unbind(2)]),
}


@pytest.mark.parametrize("function", PARTS.values(), ids=PARTS)
def test_parts_of_a_dimension_that_varies(function):
    in_two(function, [(rand(2, n, 4),) for n in (8, 9, 12, 8, 6, 11, 15)])


@pytest.mark.parametrize("dynamic", [None, True])
def test_as_many_parts_as_there_are(dynamic):
    """A trace is for one number of parts, and for all sizes that give as many."""
    compiled = oxytorch._oxytorch.capture(lambda x: [part * 2 for part in x.split(4, 0)], dynamic=dynamic)
    chunked = oxytorch._oxytorch.capture(lambda x: [part * 2 for part in x.chunk(4, 0)], dynamic=dynamic)
    for n in (9, 10, 12, 11, 13, 16, 15, 8, 5, 6, 2):
        x = rand(n, 3)
        assert_same(compiled(x), [part * 2 for part in x.split(4, 0)])
        assert_same(chunked(x), [part * 2 for part in x.chunk(4, 0)])
    # Three, four and two of them, and one; and the first call where nothing varies.
    assert compiled.stats()["traced"] <= 5, compiled.report()["recompiles"]
    assert chunked.stats()["traced"] <= 5, chunked.report()["recompiles"]


# Arithmetic of sizes that C does.


def added_in_place(x):
    sizes = []
    sizes += x.shape[:-1]
    sizes += [2, x.shape[-1] // 2]
    return x.reshape(sizes) * 2


def extended(x):
    sizes = [1]
    sizes.extend(x.shape)
    sizes.extend((1, 1))
    return x.view(sizes), sizes


def whole_and_rest(x):
    whole, rest = divmod(x.shape[1], 4)
    return x[:, : whole * 4].reshape(2, whole, 4, 8).sum(2) + rest


ARITHMETIC = {
    "product": lambda x: x.reshape(math.prod(x.shape)) / math.prod(x.shape[1:]),
    "count": lambda x: x.sum() / x.shape[:2].numel(),
    "added_in_place": added_in_place,
    "extended": extended,
    "zipped": lambda x: x.new_zeros([size * times for size, times in zip(x.shape, (1, 2, 3))]),
}


@pytest.mark.parametrize("function", ARITHMETIC.values(), ids=ARITHMETIC)
def test_what_c_does_with_sizes(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


def test_a_quotient_and_its_rest():
    check(whole_and_rest, [(rand(2, n, 8),) for n in (7, 9, 10, 5, 6, 11)], dynamic=None, compiles=2)


def test_an_argument_is_a_variable_where_all_are():
    """0 and 1 are constants at first, as sizes of 0 and 1 are."""
    check(lambda x, n: x[:n] * n, [(rand(20, 3), n) for n in (5, 7, 12, 3)])
    check(lambda x, n: x[:n].sum(0) + n, [(rand(20, 3), n) for n in (1, 7, 12, 1)], compiles=2)
    check(lambda x, dim: x.sum(dim), [(rand(5, 4, 3), dim) for dim in (1, -1, 2)], compiles=3)
    check(lambda x, n=4: x.view(-1, n) * 2, [(rand(24),), (rand(36),)])


# What one operation says of a size is known to the next.


WEIGHT = rand(24, 8)


def split_by_a_width(x):
    width = x.size(-1)
    return F.linear(x, WEIGHT).unflatten(-1, (3, width)) * 2


def seen_by_a_width(x):
    b, t, width = x.shape
    return F.linear(x, WEIGHT).view(b, t, 3, width) * 2


@pytest.mark.parametrize("function", [split_by_a_width, seen_by_a_width])
def test_a_size_that_is_settled_settles_others(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


LAYERS = {
    "attention": lambda: nn.MultiheadAttention(8, 2, batch_first=True),
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_attention_takes_any_length(name):
    layer = LAYERS[name]()
    function = (lambda x: layer(x, x, x)) if name == "attention" else layer.forward
    in_two(lambda x: function(x), [(rand(2, n, 8),) for n in LENGTHS])


# Masks.


def scattered(x, mask):
    out = torch.zeros_like(x)
    out[mask] = x[mask] * 2
    return out + 1


def scattered_behind_an_index(x, mask):
    out = x.clone()
    out[:, mask[0], :2] = (x[:, mask[0]] * 3)[..., :2]
    return out * 2


@pytest.mark.parametrize("function", [scattered, scattered_behind_an_index])
@pytest.mark.parametrize("dynamic", [None, True])
def test_as_many_values_as_a_mask_has_places(function, dynamic):
    compiled = oxytorch.compile(function, dynamic=dynamic, fullgraph=True)
    for rows, columns in ((2, 9), (3, 12), (3, 7), (4, 8), (2, 9), (5, 16)):
        x, mask = rand(rows, columns, 3), torch.arange(rows * columns).view(rows, columns) % 3 > 0
        results = []
        for call in (compiled, function):
            own = x.clone().requires_grad_()
            result = call(own, mask)
            result.square().sum().backward()
            results.append((result.detach(), own.grad))
        assert_same(*results)
    assert compiled.stats()["traced"] <= (2 if dynamic is None else 1)


def test_another_number_of_values_than_places_is_refused():
    def function(x, mask, values):
        x[mask] = values
        return x * 2

    compiled = oxytorch.compile(function, dynamic=True)
    mask = torch.tensor([True, False, True, True, False])
    assert_same(compiled(torch.zeros(5), mask, torch.ones(3)), torch.tensor([2.0, 0, 2, 2, 0]))
    errors = []
    for call in (compiled, function):
        with pytest.raises(Exception) as caught:
            call(torch.zeros(5), mask, torch.ones(2))
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]


# Sizes in objects that the call makes.


@dataclasses.dataclass
class Span:
    length: int
    width: int = 3
    parts: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Fixed:
    length: int


class Slotted:
    __slots__ = ("half", "length")

    def __init__(self, length):
        self.length, self.half = length, length // 2


def in_a_dataclass(x):
    span = Span(x.shape[1])
    span.length += 1
    longer = dataclasses.replace(span, width=4)
    return x.new_ones(longer.length, longer.width), span.length


def in_frozen_objects_and_slots(x):
    return x[:, : Slotted(x.shape[1]).half], x.new_zeros(Fixed(x.shape[1]).length)


def in_a_result(x):
    return x + 1, Span(x.shape[1])


def changed_in_a_closure(x):
    span = Span(x.shape[1])

    def grow():
        span.length += 1
        return x.new_ones(span.length)

    grow()
    return grow()


@pytest.mark.parametrize("function", [in_a_dataclass, in_frozen_objects_and_slots, in_a_result, changed_in_a_closure])
def test_sizes_in_objects(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


def read_from_the_dict(x):
    span = Span(x.shape[1])
    table = span.__dict__
    span.length = span.length + 1
    return x.new_ones(table["length"]), vars(span)


def written_in_the_dict(x):
    span = Span(x.shape[1])
    span.__dict__["length"] = 4
    return x.new_ones(span.length), span


@pytest.mark.parametrize("function", [read_from_the_dict, written_in_the_dict])
def test_dicts_of_objects_with_sizes(function):
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n in LENGTHS:
        x = rand(2, n, 8)
        assert_same(captured(x), function(x))


def test_sizes_as_defaults_of_functions():
    def function(x):
        rows, columns = x.shape

        def scaled(t, n=rows, *, m=columns):
            return t.view(m, n) * n + m

        return scaled(x), scaled(x, m=columns * 2 // 2), (lambda n=rows: x * n)()

    check(function, [(rand(n, m),) for n, m in ((6, 4), (7, 4), (9, 5), (5, 5), (3, 9), (12, 2))])


def test_sizes_in_partials():
    def function(x):
        rows, columns = x.shape
        shaped = functools.partial(torch.reshape, shape=(columns, rows))
        times = functools.partial(lambda n, m, t: t * n + m, rows)
        return shaped(x), times(columns, x), functools.partial(torch.add, alpha=rows)(x, x)

    check(function, [(rand(n, m),) for n, m in ((6, 4), (7, 4), (9, 5), (5, 5), (3, 9), (12, 2))])


def test_sizes_in_a_partial_of_a_partial():
    """What it has of the other is relied on."""

    def function(x):
        times = functools.partial(lambda n, m, t, k: t * n + m * k, x.shape[0], k=x.shape[1])
        return functools.partial(times, x.shape[1])(x), functools.partial(times, 2, k=3)(x)

    calls = [(rand(n, m),) for n, m in ((6, 4), (7, 4), (9, 5), (5, 5))]
    check(function, calls, compiles=len(calls))


def test_a_function_with_sizes_that_is_given_away():
    def function(x, keep):
        keep.append(functools.partial(lambda t, n, k: t * n + k, n=x.shape[0], k=x.shape[1]))
        keep.append(lambda t, n=x.shape[0]: t * n)
        return x + 1

    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n, m in ((6, 4), (7, 4), (9, 5), (5, 5)):
        ours, eagers = [], []
        assert_same(captured(torch.ones(n, m), ours), function(torch.ones(n, m), eagers))
        assert [f(torch.ones(2)).tolist() for f in ours] == [f(torch.ones(2)).tolist() for f in eagers]
    assert captured.stats()["traced"] == 1, captured.show()


def test_sizes_that_numpy_computes_with():
    def function(x):
        rows, columns = x.shape
        count, length = int(np.prod(x.shape)), int(np.sum([rows, columns]))
        half, root = int(np.ceil(rows / 2)), float(np.sqrt(columns))
        return x.reshape(count), x.new_zeros(length), x[:half] * root, x[: int(np.floor(rows / 2))], float(np.prod([rows, 2])) * x

    check(function, [(rand(n, m),) for n, m in ((6, 4), (7, 4), (9, 5), (5, 5), (3, 9), (12, 2))])


def test_tensors_are_computed_with_numbers_of_numpys():
    def function(x):
        whole = x.to(torch.int32)
        return x / np.sqrt(x.shape[0]), x * np.prod(x.shape), whole + np.sum([x.shape[0], 2]), whole // np.prod(x.shape[:1]), whole * np.sqrt(4 + x.shape[0])

    check(function, [(rand(n, m) * 9,) for n, m in ((6, 4), (7, 4), (9, 5), (5, 5), (3, 9), (12, 2))])


def test_a_number_of_numpys_has_its_class():
    def function(x):
        return np.prod(x.shape), np.sqrt(x.shape[0]), x * int(np.prod(x.shape))

    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n in (6, 7, 9):
        x = rand(n, 4)
        (count, root, y), (wanted, its_root, z) = captured(x), function(x)
        assert type(count) is type(wanted) and type(root) is type(its_root) and (count, root) == (wanted, its_root)
        assert_same(y, z)


def test_tensors_of_numbers_that_are_made_of_sizes():
    def function(x):
        n = x.shape[0]
        return x * torch.tensor(float(n)), x / torch.tensor(n**0.5, dtype=torch.float64), torch.scalar_tensor(n / 3) + x

    check(function, [(rand(n),) for n in (5, 6, 7, 9, 12)])


# Bounded by numbers: what is said of them is said of the expression, not of which one it is.


def at_most_a_number(x):
    return x[: min(x.shape[0], 8)] * 2


def between_two_numbers(x):
    n = max(1, min(x.shape[0] - 2, 10))
    return x[:n] * n, x.new_zeros(n) + 1


def what_is_left(x):
    return F.pad(x, (0, 0, 0, max(0, 8 - x.shape[0]))) * 2, x[max(x.shape[0] - 4, 0) :] + 1


def largest_of_a_shape(x):
    return x * max(x.shape[0], 3) + min(x.shape[0], 9)


def as_many_as_there_are(x):
    return x.topk(min(3, x.shape[0]), 0).values, x.sort(0).values[: max(1, x.shape[0] // 4)]


BOUNDED = [at_most_a_number, between_two_numbers, what_is_left, largest_of_a_shape, as_many_as_there_are]


@pytest.mark.parametrize("function", BOUNDED)
def test_sizes_that_are_bounded_by_numbers(function):
    in_two(function, [(rand(n, 4),) for n in (5, 12, 33, 8, 17, 9, 6, 2, 3)])


def cut_to_its_own_size(x):
    n = min(x.shape[0], 16)
    return x + x[:n]


def seen_in_the_bounded_size(x):
    n = max(x.shape[0], 4)
    return x.view(n, 2, 2) * 2


@pytest.mark.parametrize("function", [cut_to_its_own_size, seen_in_the_bounded_size])
def test_a_bound_that_has_to_be_one_of_the_two(function):
    check(function, [(rand(n, 4),) for n in (5, 12, 7, 9)])
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n in (5, 12, 20, 3, 40):
        x = rand(n, 4)
        try:
            wanted = function(x)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                captured(x)
        else:
            assert_same(captured(x), wanted)


def test_the_rest_is_seen_by_a_part_of_a_size():
    in_two(lambda x: x.view(-1, x.shape[0] // 2) * 2, [(rand(n, 6),) for n in (10, 24, 66, 16, 34, 12)])
    in_two(lambda x: x.reshape(x.shape[0] // 4, -1) + 1, [(rand(n, 3),) for n in (8, 24, 64, 16, 36, 12)])


HALVES = {
    "added": lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :],
    "turned": lambda x: torch.cat((-x[: x.shape[0] // 2], x[x.shape[0] // 2 :] * x[: x.shape[0] // 2])),
}


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_added(name):
    """That a size is even is asked once; an odd one in between is an error that eager raises."""
    compiled = oxytorch.compile(HALVES[name], dynamic=True)
    for n in (12, 18, 24, 13, 12, 30):
        x = rand(n, n)
        if n % 2 == 0:
            assert_same(compiled(x), HALVES[name](x))
            assert compiled.stats()["traced"] <= 2, compiled.show()
        else:
            with pytest.raises(RuntimeError, match="must match"):
                compiled(x)
