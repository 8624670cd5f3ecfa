"""Lists, tuples and ranges of sizes: what a program does with them is compiled once for all sizes, or once for each answer."""

import copy
import dataclasses
from typing import NamedTuple

import oxytorch
import pytest
import torch
from compare import assert_same
from dynamic import check, rand

LENGTHS = (9, 12, 10, 9, 15, 11)


def in_two(function, calls):
    check(function, calls, dynamic=True, compiles=1)
    check(function, calls, dynamic=None, compiles=2)


def inserted(x):
    sizes = list(x.shape)
    sizes.insert(1, 1)
    sizes.insert(-1, x.shape[1] // x.shape[1])
    return x.view(sizes) * 2, sizes


def several_at_once(x):
    sizes = list(x.shape)
    sizes[1:2] = [1, x.shape[1]]
    sizes[:2] = (sizes[0] * sizes[1],)
    return x.view(sizes) * 2, sizes


def one_by_one(x):
    sizes = [0, 0, 0]
    sizes[0], sizes[-1] = x.shape[0] * 2, x.shape[2] // 2
    sizes[1] = x.shape[1]
    sizes[0] //= 2
    return x[..., ::2].reshape(sizes) * 2, sizes


def taken_out(x):
    sizes = list(x.shape)
    rows = sizes.pop(0)
    last = sizes.pop()
    del sizes[0]
    return x.view(rows * x.shape[1], last, *sizes) * 2, sizes


def deleted(x):
    sizes = [1, *x.shape, x.shape[1]]
    del sizes[-1], sizes[::5]
    return x.view(sizes) * 2


def turned_round(x):
    sizes = list(x.shape)
    sizes.reverse()
    other = sizes.copy()
    other.clear()
    return x.reshape(sizes) * 2, other


def grown_by_itself(x):
    sizes = [x.shape[1]]
    again = sizes
    sizes += sizes
    sizes.extend(again)
    again.append(x.shape[2])
    return x.new_zeros(sizes), sizes is again


def sorted_ways(x):
    sizes = list(x.shape)
    sizes.sort(reverse=True)
    order = sorted(range(3), key=lambda dim: x.shape[dim])
    return x.reshape(sorted(x.shape)) * 2, sizes, x.permute(order) + 1


def searched(x):
    sizes = list(x.shape)
    place = sizes.index(max(sizes))
    sizes.remove(8)
    return x.sum(place), sizes, sizes.count(1), 1 in x.shape, x.shape[1] in (0, 1)


LISTS = {
    "inserted": inserted,
    "several_at_once": several_at_once,
    "one_by_one": one_by_one,
    "taken_out": taken_out,
    "deleted": deleted,
    "turned_round": turned_round,
    "grown_by_itself": grown_by_itself,
    "sorted": sorted_ways,
    "searched": searched,
    "repeated": lambda x: x.new_zeros(x.shape[1:2] * 2 + tuple([x.shape[1]] * 2)),
    "by_names": lambda x: x.new_zeros((d := dict(n=x.shape[1], m=2))["n"], d["m"]) + d["n"],
    "nested": lambda x: x.new_zeros([x.shape[1]] * len([x.shape, (x.shape[1], 1)])),
    "broadcast": lambda x: x.new_zeros(torch.broadcast_shapes(x.shape, (1, 1, 8), x.shape[-1])),
    "bits": lambda x: x.new_zeros(1 << (x.shape[1] - 1).bit_length()).sum() + x[:, : x.shape[1].bit_count()].sum(),
}


@pytest.mark.parametrize("function", LISTS.values(), ids=LISTS)
def test_lists_of_sizes(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


def test_each_order_is_a_trace():
    captured = check(sorted_ways, [(rand(2, n, 8),) for n in (9, 12, 5, 7, 10, 6)], compiles=2)
    assert "sorted_ways" in captured.report()["recompiles"][0]


def test_places_that_are_not_there():
    def misplaced(x, wrong):
        sizes = list(x.shape)
        try:
            wrong(sizes)
        except (IndexError, ValueError) as error:
            return x.view(sizes) * 2, str(error)

    def store(sizes):
        sizes[7] = sizes[0]

    def delete(sizes):
        del sizes[-4]

    WRONG = [store, delete, lambda sizes: sizes.pop(3), lambda sizes: sizes.remove(1000), lambda sizes: sizes.index(1000)]
    for wrong in WRONG:
        check(lambda x: misplaced(x, wrong), [(rand(2, n, 8),) for n in LENGTHS])


# Ranges.


def counted(x):
    n = x.shape[1]
    lengths = len(range(n)), len(range(1, n)), len(range(0, n, 4)), len(range(n, 0, -3)), len(range(n, 2)), len(range(-n, n))
    return x.new_zeros(lengths[:4]) if n < 0 else x.new_zeros(lengths[2], lengths[3]), lengths


def places_of_slices(x):
    n = x.shape[1]
    first, last, step = slice(1, None, 2).indices(n)
    rest = slice(-3, None).indices(n)
    back = slice(None, 2, -2).indices(n)
    inner = slice(2, n - 2).indices(n - 1)
    return x[:, first:last:step] * 2, x[:, rest[0] : rest[1]] * 3, back, inner


def parts_of_ranges(x):
    steps = range(2, x.shape[1], 3)
    return x[:, steps.start : steps.stop : steps.step] * 2, steps.stop


@pytest.mark.parametrize("function", [counted, places_of_slices, parts_of_ranges])
def test_ranges_that_are_not_gone_through(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


def blocks(x):
    return torch.stack([x[:, i : i + 3].sum(1) for i in range(0, x.shape[1] - 2, 3)])


def from_the_end(x):
    total = 0
    for place, i in enumerate(range(x.shape[1] - 1, x.shape[1] - 4, -1)):
        total = total + x[:, i] * place
    return total, [j for j in reversed(range(x.shape[1] - 2, x.shape[1]))]


def test_a_trace_is_for_a_number_of_rounds():
    """Three, four and five of them."""
    check(blocks, [(rand(2, n, 8),) for n in (9, 10, 11, 12, 14, 13, 9, 15, 17)], compiles=3)
    in_two(from_the_end, [(rand(2, n, 8),) for n in LENGTHS])


def kept(x, kind):
    n = x.shape[1]
    steps = range(0, n, 4)
    if kind == "in a list":
        return [steps, (steps, n)], x * 2
    if kind == "compared":
        return x * 2, steps == range(0, 12, 4), n - 1 in range(n), 4 in steps, steps is steps
    if kind == "read":
        return x * steps[1], steps[-1], range(n)[2:], steps.index(4), hash(steps) == hash(range(0, n, 4)), str(steps)
    if kind == "given away":
        return x * torch.tensor(steps).sum(), max(steps), sum(steps), list(steps), tuple(steps), set(steps), sorted(steps)
    if kind == "empty":
        empty = range(n, n)
        return x * 2, bool(empty), list(empty), len(empty), bool(range(12 - n)), len(range(12 - n))
    total = x * 2
    iterator = iter(range(n - 3, n))
    next(iterator)
    if total.sum() > 1e9:
        return None
    return total * len(steps), steps, list(iterator), n


KINDS = ["in a list", "compared", "read", "given away", "empty", "behind a break"]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_becomes_of_a_range(kind, dynamic):
    captured = oxytorch._oxytorch.capture(kept, dynamic=dynamic)
    for n in (9, 12, 10, 9, 15, 13, 12):
        x = rand(2, n, 8)
        for _ in range(2):
            assert_same(captured(x, kind), kept(x, kind))


# Equations of several sizes.


def whole(x):
    quotient, rest = divmod(x.shape[1] * 4, 4)
    return x.view(2, quotient, 2, 4) * 2 + rest


def in_blocks(x):
    b, n, d = x.shape
    count = (n + 3) // 4
    x = torch.nn.functional.pad(x, (0, 0, 0, count * 4 - n)).view(2, count, 4, 8)
    return (x @ x.mT).view(2, count, 16)


def shifted(x):
    n = x.shape[1]
    return torch.nn.functional.pad(x @ x.mT, (1, 0)).view(2, n + 1, n)[:, 1:] * 2


@pytest.mark.parametrize("function", [whole, in_blocks, shifted])
def test_constants_of_a_view_fix_the_fewest_sizes(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


# Objects of the program's.


class Grid:
    scale = 2

    def __init__(self, rows, columns):
        self.rows = rows
        self.columns = columns
        self.sizes = [(rows, columns)]

    @property
    def area(self):
        return self.rows * self.columns


@dataclasses.dataclass
class Window:
    size: int
    step: int = 2

    def __post_init__(self):
        self.count = (self.size - 1) // self.step + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    size: int
    places: tuple = ()


class Slotted:
    __slots__ = ("size",)


class Corner(NamedTuple):
    row: int
    column: int


def held(x):
    grid = Grid(*x.shape[1:])
    grid.rows += 1
    grid.rows -= 1
    slotted = Slotted()
    slotted.size = grid.sizes[0][0]
    return x.reshape(-1, grid.area) * grid.scale, x[:, : slotted.size - 1] * 2, grid.sizes


def held_by_dataclasses(x):
    window = Window(x.shape[1])
    other = dataclasses.replace(window, size=x.shape[1] // 2)
    frozen = Frozen(x.shape[1], (x.shape[1], 1))
    return x.new_zeros(window.count, other.count, frozen.places[0]), window == Window(x.shape[1]), frozen.size


def held_by_names(x):
    corner = Corner(x.shape[1], x.shape[2])
    sizes = {name: size for name, size in zip(corner._fields, corner)}
    rows = sizes.pop("row")
    match x.shape:
        case (_, rows, 8) if list(x.shape) == [2, rows, 8]:
            return x.new_zeros(rows, corner.column), sizes, sizes.pop("row", None)


def given_by_names(x, **options):
    return x[:, : options.pop("length")] * 2, options


@pytest.mark.parametrize("function", [held, held_by_dataclasses, held_by_names, lambda x: given_by_names(x, length=x.shape[1] // 2, n=x.shape[1])])
def test_objects_hold_sizes(function):
    in_two(function, [(rand(2, n, 8),) for n in LENGTHS])


def looked_into(x, how):
    grid = Grid(x.shape[1], 2)
    if how == "dict":
        vars(grid)["rows"] = 9
        return x * grid.rows, vars(grid)
    if how == "taken first":
        own = grid.__dict__
        grid.rows = x.shape[1] * 2
        return x * own["rows"], grid.rows
    if how == "copied":
        other = copy.copy(grid)
        other.rows = 12
        return x * other.area, copy.deepcopy(grid).rows, other.sizes is grid.sizes
    if how == "overwritten":
        grid.rows = 9
        grid.sizes = grid.columns
        del grid.columns
        return x * grid.rows, hasattr(grid, "columns"), grid.sizes
    if how == "behind a break":
        torch._dynamo.graph_break()
        return x * grid.rows, grid.sizes, grid.area
    return grid, x * 2


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("how", ["dict", "taken first", "copied", "overwritten", "behind a break", "returned"])
def test_what_becomes_of_an_object(how, dynamic):
    captured = oxytorch._oxytorch.capture(looked_into, dynamic=dynamic)
    for n in (9, 12, 10, 9, 15):
        x = rand(2, n, 8)
        for _ in range(2):
            got, want = captured(x, how), looked_into(x, how)
            if how == "returned":
                got, want = (vars(got[0]), got[1]), (vars(want[0]), want[1])
            assert_same(got, want)


def test_a_key_that_is_given_twice():
    """The last value counts, also where it is the very number that the size was in the trace."""

    def step(x):
        named = dict({"a": x.shape[0], "b": 1}, a=3)
        paired = dict([("a", x.shape[0]), ("a", 3)])
        return x.sum() * named["a"], named, paired

    in_two(step, [(rand(n, 4),) for n in (2, 3, 4, 5, 3)])
