"""Programs that captured functions once did otherwise than CPython and eager: each is run plain and captured, call after call."""

import collections
import copy
import itertools
import operator
import sys

import oxytorch
import pytest
import torch
from compare import assert_same
from torch import nn

TABLE = torch.arange(12.0).reshape(4, 3)
GOOD, BAD = torch.tensor([0, 3]), torch.tensor([1, 9])


def x():
    return torch.arange(12.0).reshape(3, 4)


def outcome(function, args):
    """What comes out or is raised, and what becomes of the arguments."""
    args = copy.deepcopy(args)
    try:
        return function(*args), args
    except Exception as error:
        return (type(error).__name__, str(error)), args


def same_in_all_calls(function, *calls):
    captured = oxytorch.compile(function)
    for _ in range(2):
        for args in calls:
            for _ in range(2):
                assert_same(outcome(captured, args), outcome(function, args))


# Generators that nobody holds any more are closed at once.


def numbers(tensor, log):
    try:
        for n in range(3):
            yield tensor + n
    finally:
        log.append("closed")


def left_by_a_loop(tensor, log):
    for item in numbers(tensor, log):
        log.append("first")
        break
    log.append("behind")
    return item


def left_in_a_variable(tensor, log):
    generator = numbers(tensor, log)
    first = next(generator)
    log.append("end")
    return first


def left_in_an_inner_function(tensor, log):
    def first():
        return next(numbers(tensor, log))

    y = first()
    log.append("behind")
    return y * 2


def forgotten(tensor, log):
    generator = numbers(tensor, log)
    first = next(generator)
    del generator
    log.append("behind")
    return first


def left_behind_a_break(tensor, log):
    generator = numbers(tensor, log)
    first = next(generator)
    log.append(int(first.sum()) > 0)
    sys.getrefcount(log)
    generator = None
    log.append("behind")
    return first


def grad_mode_of_a_generator(tensor, log):
    def parts():
        with torch.no_grad():
            yield tensor * 2

    for part in parts():
        log.append(torch.is_grad_enabled())
        break
    log.append(torch.is_grad_enabled())
    return part


@pytest.mark.parametrize(
    "function",
    [left_by_a_loop, left_in_a_variable, left_in_an_inner_function, forgotten, left_behind_a_break, grad_mode_of_a_generator],
)
def test_generators_that_are_left_are_closed(function):
    same_in_all_calls(function, (x(), []), (x() - 100, []))
    assert torch.is_grad_enabled()


# Names that exec and eval leave behind.


def evaluated_behind_an_exec(tensor):
    exec("k = 3")
    return eval("k") * tensor


def listed_behind_an_exec(tensor):
    a = 1
    exec("a = 3\nb = a + 1")
    found = locals()
    return tensor + a, eval("a"), found.get("b"), sorted(found)


def unset_behind_an_exec(tensor):
    a = 1
    exec("b = a")
    del a
    try:
        return eval("a")
    except NameError:
        return tensor * eval("b")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="each call sees a snapshot of its own")
@pytest.mark.parametrize("function", [evaluated_behind_an_exec, listed_behind_an_exec, unset_behind_an_exec])
def test_names_of_an_exec_are_there_for_the_next(function):
    same_in_all_calls(function, (x(),))


# Tensors that no memory holds.


@pytest.mark.parametrize(
    "make",
    [
        lambda t: torch.empty(45 * 10**15),
        lambda t: torch.zeros(10**9, 10**9),
        lambda t: t.new_empty(10**9, 10**9, dtype=torch.uint8),
        lambda t: t.reshape(-1)[:1].expand(10**17) * 2,
        lambda t: t.reshape(-1)[:1].expand(10**17),
    ],
    ids=["empty", "zeros", "new_empty", "computed", "view"],
)
def test_a_tensor_that_no_memory_holds_is_refused_where_only_its_size_is_used(make):
    same_in_all_calls(lambda t: (make(t).shape[0], t + 1), (x(),))


# Results that share memory.


def leaf_with_views(tensor, log):
    y = tensor * 2
    first = y[0]
    log.append("an effect")
    y.requires_grad_()
    return y, first, first.requires_grad, (first * 3).sum()


def leaf_with_views_of_earlier_graphs(tensor, log):
    y = tensor * 2
    flat = y.view(-1)
    log.append(float(flat.sum()))
    row = y[1]
    y.requires_grad_()
    return [t.requires_grad for t in (y, flat, row)], y, (y * flat.view(3, 4)).sum() + row.sum()


def view_of_a_leaf_is_written(tensor, log):
    y = tensor * 2
    first = y[0]
    log.append("an effect")
    y.requires_grad_()
    try:
        first.add_(1)
    except RuntimeError as error:
        log.append(str(error))
    return y


@pytest.mark.parametrize("function", [leaf_with_views, leaf_with_views_of_earlier_graphs, view_of_a_leaf_is_written])
def test_views_are_told_that_their_base_requires_grad(function):
    same_in_all_calls(function, (x(), []))


def test_a_result_is_the_base_of_its_views():
    def function(tensor):
        y = tensor * 2
        return y, y[0], y.t()

    captured = oxytorch.compile(function)
    for _ in range(3):
        y, row, turned = captured(x())
        assert row._base is y and turned._base is y and not y._is_view()


KEPT = torch.arange(4.0)


@torch.library.custom_op("faults::kept", mutates_args=())
def kept(tensor: torch.Tensor) -> torch.Tensor:
    return KEPT


@kept.register_fake
def _(tensor):
    return torch.empty_like(tensor)


def kept_in_pieces(tensor):
    """A write that gradients pass cuts the graph: one piece returns the tensor that is kept."""
    table = kept(tensor.detach())
    y = tensor * 2
    y.mul_(table.sum())
    return table, y, table[1:]


@pytest.mark.parametrize(
    ("function", "grad"), [(lambda t: (kept(t), t + 1), False), (lambda t: kept(t)[1:], False), (kept_in_pieces, True)]
)
def test_a_tensor_that_an_operator_keeps_stays_its_own(function, grad):
    captured = oxytorch.compile(function)
    for _ in range(3):
        tensor = torch.ones(4, requires_grad=grad)
        assert_same(captured(tensor), function(tensor))
        assert type(KEPT) is torch.Tensor and torch.equal(KEPT + 1, torch.arange(1.0, 5))


def test_a_view_remembers_the_grad_mode_that_it_was_made_in():
    def error_of_a_write(function):
        base = x()
        view, weight = function(base), torch.ones(3, 4, requires_grad=True)
        base.mul_(weight)
        with pytest.raises(RuntimeError) as raised:
            view.mul_(2)
        return str(raised.value)

    captured = oxytorch.compile(lambda t: t[0])
    for _ in range(3):
        assert error_of_a_write(captured) == error_of_a_write(lambda t: t[0])


# Views through which no gradient passes.


def made_without_grad(tensor):
    with torch.no_grad():
        view = tensor[1:]
    return view


def made_of_a_result_without_grad(tensor):
    y = tensor * 2
    with torch.no_grad():
        view = y[1:]
    return view, y


def made_of_a_view_without_grad(tensor):
    with torch.no_grad():
        view = tensor.view(2, -1)
    return view[0], tensor * 3


@torch.no_grad()
def unbound_without_grad(tensor):
    return tensor.reshape(2, 2).unbind()


def detached_of_a_result(tensor):
    y = tensor * 2
    return y.detach()[1:], y, y.data


@pytest.mark.parametrize(
    "function",
    [made_without_grad, made_of_a_result_without_grad, made_of_a_view_without_grad, unbound_without_grad, detached_of_a_result],
)
def test_gradients_pass_no_view_that_was_made_without_them(function):
    def gradient(function):
        tensor = torch.ones(4, requires_grad=True)
        result = function(tensor)
        results = [result] if isinstance(result, torch.Tensor) else list(result)
        loss = sum((2 * part).sum() for part in results) + 0 * torch.ones((), requires_grad=True)
        gradients = torch.autograd.grad(loss, tensor, allow_unused=True)
        return gradients[0], [part.requires_grad for part in results]

    captured = oxytorch.compile(function)
    for _ in range(3):
        assert_same(gradient(captured), gradient(function))


def test_a_module_s_part_without_grad_has_no_gradient():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2, 2))

        def forward(self, tensor):
            with torch.no_grad():
                row = self.w[0]
            return tensor * row.sum(), row

    module = Part()
    captured = oxytorch.compile(module)
    for _ in range(3):
        out, row = captured(torch.ones(2, requires_grad=True))
        (out.sum() + 4 * row.sum()).backward()
        assert module.w.grad is None


def detached_in_front_of_a_leaf(tensor, log):
    y = tensor * 2
    apart = y.detach()
    log.append("an effect")
    y.requires_grad_()
    return y.requires_grad, apart.requires_grad, y, (apart * 3).sum()


def written_behind_a_detach(tensor, log):
    y = tensor.detach()
    log.append("an effect")
    y.add_(1)
    return y, y.data, tensor * 2


@pytest.mark.parametrize("function", [detached_in_front_of_a_leaf, written_behind_a_detach])
def test_what_is_detached_stays_so_where_its_base_requires_grad_later(function):
    same_in_all_calls(function, (x(), []))


@pytest.mark.parametrize("detach", [lambda t: t.detach(), lambda t: t.data, lambda t: t.detach()[1:]])
def test_a_detached_argument_is_no_view_of_it(detach):
    def state(function):
        tensor = torch.ones(3)
        apart = function(tensor)
        tensor.requires_grad_()
        return apart.requires_grad, apart._base is tensor, apart.data_ptr() - tensor.data_ptr()

    captured = oxytorch.compile(detach)
    for _ in range(3):
        assert state(captured) == state(detach)
        base = torch.ones(3)
        apart = captured(base)
        base.mul_(torch.full((3,), 2.0, requires_grad=True))
        apart.add_(1)
        assert torch.equal(base.detach()[-2:], torch.full((2,), 3.0))


# Runs that fail.


def division_behind_a_write(tensor, by, log):
    log.append("before")
    tensor.add_(1)
    return 12 // by


def test_what_was_written_before_a_division_by_zero_stays():
    captured, tensor, log = oxytorch.compile(division_behind_a_write), x(), []
    for n in range(3):
        with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
            captured(tensor, torch.zeros(2, dtype=torch.int64), log)
        assert torch.equal(tensor, x() + n + 1)


def drawn_and_read(tensor, at, log):
    noise = torch.rand(3)
    try:
        rows = TABLE.index_select(0, at * 1)
    except IndexError as error:
        log.append(str(error))
        return tensor
    return rows.sum() + 0 * noise.sum()


def drawn_and_read_without_a_clause(tensor, at, log):
    return TABLE.index_select(0, at * 1).sum() + 0 * torch.rand(3).sum()


@pytest.mark.parametrize("function", [drawn_and_read, drawn_and_read_without_a_clause])
@pytest.mark.parametrize("grad", [False, True])
def test_a_failed_run_has_drawn_nothing(function, grad):
    tensor = x().requires_grad_(grad)
    scaled = (lambda t, at, log: function(t * 2, at, log) * t.sum()) if grad else function
    same_in_all_calls(scaled, (tensor, GOOD, []), (tensor, BAD, []))
    captured, before = oxytorch.compile(scaled), torch.get_rng_state()
    captured(tensor, GOOD, [])
    torch.set_rng_state(before)
    outcome(scaled, (tensor, BAD, []))
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    outcome(captured, (tensor, BAD, []))
    assert torch.equal(torch.get_rng_state(), after), "eager has drawn what it draws, and nothing was drawn before"


# Classes of tensors.


def test_a_parameter_that_is_made_is_one():
    def function(tensor):
        made = nn.Parameter(tensor * 2)
        return made, isinstance(made, nn.Parameter), type(made) is nn.Parameter

    captured = oxytorch.compile(function)
    for _ in range(3):
        made, *told = captured(x())
        assert type(made) is nn.Parameter and made.requires_grad and told == [True, True]
        assert torch.equal(made, x() * 2)


def test_a_module_that_is_made_has_parameters():
    def function(tensor):
        layer = nn.Linear(4, 2)
        layer.weight = nn.Parameter(tensor[:2] * 2)
        return layer

    captured = oxytorch.compile(function)
    for _ in range(3):
        layer = captured(x())
        assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
        assert torch.equal(layer.weight, x()[:2] * 2)


def test_numbers_are_rounded_by_methods_that_there_are():
    same_in_all_calls(lambda t: round(t.mean()), (x(),))


# Something is computed behind the machine's back, in the instruction that breaks.


class Place:
    def __init__(self, tensor):
        self.tensor = tensor

    def __index__(self):
        return int(self.tensor)


def computed_where_the_graph_breaks(tensor, at):
    y = tensor * 2
    rows = TABLE[Place(at[1] * 1), at * 1]
    return y + 1, rows


def computed_for_a_slice_where_the_graph_breaks(tensor, at):
    y = tensor * 2
    rows = TABLE[Place(at[1] - 1) :, at - 1]
    return y + 1, rows


@pytest.mark.parametrize("function", [computed_where_the_graph_breaks, computed_for_a_slice_where_the_graph_breaks])
def test_a_break_where_something_was_computed_unseen(function):
    same_in_all_calls(function, (x(), torch.tensor([1, 2])), (x() + 1, torch.tensor([2, 1])))


def written_behind_a_view(x, w):
    with torch.no_grad():
        flat = w.view(-1)
    w.data[0, 0] += 0.01
    return x @ w + flat.sum()


def written_behind_a_view_and_a_break(x, w):
    with torch.no_grad():
        row = w[0]
        total = row.sum()
    w.data.clamp_(-1, 1)
    y = (x @ w).sum()
    print(end="")
    return y * total


def written_behind_a_view_that_is_returned(x, w):
    with torch.no_grad():
        flat = w.view(-1)
    w.data[0, 0] += 0.01
    return x @ w, flat


@pytest.mark.parametrize(
    "function", [written_behind_a_view, written_behind_a_view_and_a_break, written_behind_a_view_that_is_returned]
)
def test_data_is_written_behind_a_view_without_grad(function):
    captured = oxytorch.compile(function)
    for n in range(3):
        given = torch.randn(2, 2)
        ours, theirs = (torch.full((2, 2), 2.0 + n, requires_grad=True) for _ in range(2))
        got, want = captured(given, ours), function(given, theirs)
        assert_same(got, want)
        assert_same(ours.detach(), theirs.detach())
        for result, w in ((got, ours), (want, theirs)):
            (result[0] if isinstance(result, tuple) else result).sum().backward()
        assert_same(ours.grad, theirs.grad)


# Numbers that tensors hold, beside others in a subscript.


def stored_beside_a_number(b, i):
    b[i, 0] = 5.0
    b[0, i] += b[i, 1]
    return b * 2


def stored_in_a_list(b, i):
    numbers = [1, 2, 3]
    numbers[i] = 7
    numbers[i:] = [5]
    del numbers[:i]
    numbers.insert(i, 8)
    return b, numbers


SUBSCRIPTS = [
    lambda b, i: b[i, 0],
    lambda b, i: b[[i, 0]],
    lambda b, i: ((1, 2, 3)[:i], [1, 2, 3][i:], "abc"[i:], range(9)[i], b.shape[:i], (b, b * 2)[:i]),
    lambda b, i: (1, 2, 3)[: i + b.argmax() * 0],
    lambda b, i: (list(enumerate("ab", i)), list(itertools.product([1, 2], i.expand(2)))),
    lambda b, i: list(itertools.combinations("abc", i)),
    stored_in_a_list,
    lambda b, i: b[0, i],
    lambda b, i: (b[i, i], b[i, 1:], b[1:, i], b[..., i], b[i, None, 0]),
    lambda b, i: b[b.sum(1).argmax(), 0] + b[:, 1],
    lambda b, i: b[b.sum(1).argmax(), 0].item(),
    stored_beside_a_number,
]


@pytest.mark.parametrize("function", SUBSCRIPTS)
def test_a_number_of_a_tensor_stands_beside_others_in_a_subscript(function):
    same_in_all_calls(function, *((x(), torch.tensor(i)) for i in (0, 2, -1, 5)))


# Numbers that tensors hold, where C asks what it is given for one.


def a_letter_in_a_try_statement(b, i):
    try:
        return b + 1, "abc"[i]
    except IndexError as error:
        return b, str(error)


LETTERS = [
    lambda b, i: (b + 1, "abc"[i]),
    lambda b, i: (b + 1, f"{'abc'[i]}!"),
    lambda b, i: (b + 1, operator.itemgetter(i)("abc")),
    a_letter_in_a_try_statement,
]


@pytest.mark.parametrize("function", LETTERS)
def test_a_letter_behind_the_end_of_a_text(function):
    same_in_all_calls(function, *((x(), torch.tensor(i)) for i in (0, 5, -1, -4)))


@pytest.mark.parametrize("spec", ["c", "d"])
def test_a_number_that_a_text_cannot_hold(spec):
    same_in_all_calls(lambda b, i: (b + 1, f"{i.item():{spec}}"), *((x(), torch.tensor(i)) for i in (70, 71, -1, 0x110000)))


def changed(row, change):
    def function(b, i):
        held = row()
        found = change(held, i)
        return b + 1, type(held)(held), found

    return function


def numbers_of_a_deque():
    return collections.deque([0, 1, 2, 5])


def octets():
    return bytearray(b"abc")


CHANGES = [
    (numbers_of_a_deque, lambda row, i: operator.delitem(row, i)),
    (numbers_of_a_deque, lambda row, i: row.remove(i)),
    (numbers_of_a_deque, lambda row, i: row.insert(i, 7)),
    (numbers_of_a_deque, lambda row, i: row.index(i)),
    (octets, lambda row, i: operator.setitem(row, i, 9)),
    (octets, lambda row, i: operator.setitem(row, 0, i)),
    (octets, lambda row, i: operator.setitem(row, slice(i, None), b"xy")),
    (octets, lambda row, i: operator.delitem(row, i)),
    (octets, lambda row, i: operator.delitem(row, slice(i, None))),
    (octets, lambda row, i: row.insert(i, 7)),
    (octets, lambda row, i: row.pop(i)),
    (octets, lambda row, i: (row[i], row[i:])),
    (lambda: [0, 1, 2, 5], lambda row, i: row.remove(i)),
    (lambda: [0, 1, 2, 5], lambda row, i: (row.index(i), row.count(i))),
    (lambda: [3, 1, 2], lambda row, i: row.sort(reverse=i)),
]


@pytest.mark.parametrize("row, change", CHANGES)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_a_row_is_changed_where_a_tensor_says(row, change):
    same_in_all_calls(changed(row, change), *((x(), torch.tensor(i)) for i in (0, 2, -1, 5)))


ASKING = [
    lambda b, i: list(enumerate("ab", start=i)),
    lambda b, i: list(enumerate(start=i, iterable="ab")),
    lambda b, i: list(itertools.product([1, 2], repeat=i)),
    lambda b, i: list(itertools.combinations("abc", r=i)),
    lambda b, i: list(itertools.combinations(r=i, iterable="abc")),
    lambda b, i: list(itertools.combinations_with_replacement("abc", r=i)),
    lambda b, i: list(itertools.permutations([1, 2, 3], i)),
    lambda b, i: list(itertools.permutations([1, 2, 3], r=i)),
    lambda b, i: torch.Size([i, 3]),
    lambda b, i: sorted([3, 1, 2], reverse=i),
    lambda b, i: sorted([3, 1, 2], key=abs, reverse=i),
    lambda b, i: len(itertools.tee("abc", i)),
    lambda b, i: list(range(0, 6, i)),
    lambda b, i: list(range(i, i + 2)),
]


@pytest.mark.parametrize("function", ASKING)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_c_asks_a_tensor_for_its_number(function):
    same_in_all_calls(lambda b, i: (b + 1, function(b, i)), *((x(), torch.tensor(i)) for i in (0, 2, -1, 3)))


def test_counting_from_a_tensor_leaves_it_as_it_is():
    same_in_all_calls(lambda b, i: ([n for n, _ in zip(itertools.count(b, i), "ab")], b), *((x(), torch.tensor(i)) for i in (1, 2)))


class Number:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


REPEATING = [
    lambda b, i: 3 * Number(i),
    lambda b, i: Number(i) * 1.5,
    lambda b, i: range(3) * Number(i),
    lambda b, i: ([1] * Number(i), Number(i) * "ab", bytearray(b"a") * Number(i), collections.deque([1]) * Number(i)),
]


@pytest.mark.parametrize("function", REPEATING)
def test_a_row_alone_is_repeated_as_often_as_an_object_says(function):
    same_in_all_calls(lambda b, i: (b + 1, function(b, i)), *((x(), i) for i in (2, 0, 3)))


def test_counting_fails_where_the_first_number_is_asked_for():
    same_in_all_calls(lambda b, i: (b + 1, next(itertools.count(Number(i)))), (x(), 1), (x(), 2))


# Deep copies of slices.


def copied_with_its_bounds(b, i):
    bounds = slice(i, b)
    copied = copy.deepcopy(bounds)
    b.add_(1)
    return copied is bounds, copied.start is i, copied.stop, copy.copy(bounds) is bounds


def test_a_deep_copy_of_a_slice_is_another_one():
    same_in_all_calls(copied_with_its_bounds, *((x(), torch.tensor(i)) for i in (0, 2)))
    same_in_all_calls(lambda b, bounds: (b + 1, copy.deepcopy(bounds) is bounds, copy.deepcopy(bounds)), (x(), slice(1)), (x(), slice(2)))
