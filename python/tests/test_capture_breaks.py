"""Calls that only Python can make: both sides stay compiled, nothing runs twice."""

import contextlib
import copy
import warnings
import weakref

import pytest
import torch
from capturing import check, x
from compare import assert_same

import oxytorch
from oxytorch import _oxytorch


def printing(t):
    y = t + 1
    print("sum", y.shape)
    return y * 2


def branch_on_value(t):
    y = t * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def item_in_nested_call(t):
    def inner(u):
        n = int(u.abs().sum().item())
        return u * (n > 3)

    return inner(t + 1) + inner(t)


def loop_with_break(t):
    for n in range(3):
        t = t + n
        print(n)
    return t


def to_numpy(t):
    a = (t + 1).numpy()
    return t + float(a.sum())


def test_print_in_the_middle(capsys):
    captured = _oxytorch.capture(printing)
    t = x()
    for _ in range(3):
        assert_same(captured(t), (t + 1) * 2)
    assert capsys.readouterr().out.count("sum") == 3
    assert captured.stats()["traced"] == 1


def test_break_in_a_loop(capsys):
    captured = _oxytorch.capture(loop_with_break)
    t = x()
    for _ in range(3):
        assert_same(captured(t), t + 0 + 1 + 2)
    assert capsys.readouterr().out.split() == ["0", "1", "2"] * 3
    assert captured.stats()["traced"] == 1


def test_branch_on_a_value():
    captured = _oxytorch.capture(branch_on_value)
    for t in (torch.ones(3), -torch.ones(3), torch.ones(3) * 2, -torch.ones(3) * 3):
        assert_same(captured(t), branch_on_value(t))
    assert captured.stats()["traced"] == 2


def test_item_in_a_nested_call():
    captured = _oxytorch.capture(item_in_nested_call)
    for t in (torch.ones(3), torch.zeros(3), torch.ones(3)):
        assert_same(captured(t), item_in_nested_call(t))


def test_numpy():
    captured = _oxytorch.capture(to_numpy)
    for t in (x(), x()):
        assert_same(captured(t), to_numpy(t))


def test_nothing_runs_twice():
    calls = []

    def f(t, box):
        box.append("before")
        y = t + 1
        calls.append(float(y.sum()))
        box.append("behind")
        if y.sum() > 1e9:
            box.append("never")
        return y

    captured = _oxytorch.capture(f)
    for n in range(4):
        box = []
        t = x()
        assert_same(captured(t, box), t + 1)
        assert box == ["before", "behind"] and len(calls) == n + 1


def test_fullgraph_refuses_a_break():
    captured = _oxytorch.capture(printing, fullgraph=True)
    with pytest.raises(RuntimeError, match="fullgraph.*test_capture_breaks.py:"):
        captured(x())


def test_a_list_under_construction_lives_through_breaks():
    def listed(a):
        return [str(print(n)) and a * n for n in range(3)], {n: print(n) or a + n for n in range(2)}, {print(n) or n for n in range(2)}

    captured = _oxytorch.capture(listed)
    for k in range(3):
        t = x() + k
        assert_same(captured(t), listed(t))


def test_the_result_of_an_action_is_checked_on_every_branch():
    def local_class(a):
        class Local:
            items = [a * n for n in range(2)]

        return Local.items

    captured = _oxytorch.capture(local_class)
    for k in range(4):
        t = x() + k
        assert_same(captured(t), local_class(t))

    def matched(value):
        match value:
            case complex(real=1.0):
                return "one"
            case [first, *_]:
                return first
            case _:
                return value

    captured = _oxytorch.capture(matched)
    for value in (1, [x()], 1 + 0j, "s", (2,), x()):
        assert_same(captured(value), matched(value))


def test_out_that_gets_its_size():
    def into_empty(a):
        out = torch.empty(0)
        torch.mul(a, a, out=out)
        return out, out.shape

    check(into_empty, (x(),))


def test_several_outs_that_get_their_sizes():
    def into_pair(a):
        values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(a.view(-1, 2), 1, out=(values, places))
        return values * 2, places, values.shape

    check(into_pair, (x(),), breaks=1)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_that_gets_another_size():
    def into(a, out):
        mine = torch.ones(2, 2)
        torch.exp(a, out=out)
        torch.mul(a, a, out=mine)
        return out + 1, mine, mine.shape, out.shape

    check(into, (x(), torch.empty(12)), (x(), torch.empty(4, 3).t()), breaks=3)


def first_positive(t):
    for n in range(20):
        if t[n] > 0:
            return t * n
    return t


def at(place):
    t = -torch.ones(20)
    t[place] = 1.0
    return t


@pytest.mark.filterwarnings("ignore:.*compiled for too many kinds")
def test_ways_that_no_call_goes_again_are_not_traced_for_ever():
    captured = _oxytorch.capture(first_positive, settings=[("recompile_limit", 4)])
    segments = []
    for place in reversed(range(20)):
        assert_same(captured(at(place)), first_positive(at(place)))
        segments.append(captured.stats()["segments"])
    assert segments[4] > segments[3] and segments[5] == segments[-1]
    # What is known serves, and what serves makes room.
    for place in (19, 18, 17, 16, 15):
        assert_same(captured(at(place)), first_positive(at(place)))
    assert captured.stats()["segments"] == segments[-1]
    assert_same(captured(at(3)), first_positive(at(3)))
    assert captured.stats()["segments"] > segments[-1]


def test_places_of_a_tensor_that_tensors_say_are_written_between_two_graphs():
    def written(a, at):
        b = a * 2
        b[at[0], at[1]] = 1.0
        return b.sum() + 1

    captured = _oxytorch.capture(written)
    with torch.no_grad():
        for at in (torch.tensor([n, n + 1]) for n in (0, 2, 3, 0)):
            assert torch.equal(captured(torch.ones(6, 6), at), written(torch.ones(6, 6), at))
    stats = captured.stats()
    assert stats["traced"] == 1 and len(stats["breaks"]) == 1, stats


class Thing:
    pass


def weakly(t):
    thing = Thing()
    return t * (weakref.ref(thing)() is thing)


def weakly_behind_a_break(t):
    print("before")
    return weakly_here(t)


def weakly_here(t):
    print("here")
    thing = Thing()
    return t * (weakref.ref(thing)() is thing)


@pytest.mark.parametrize("inner", [weakly, weakly_here, weakly_behind_a_break])
def test_a_function_in_whose_middle_nothing_can_be_kept_is_called_as_a_whole(inner, capsys):
    def around(t):
        y = inner((t + 1).relu())
        return (y * 2).abs()

    captured = _oxytorch.capture(around)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("error", message="oxytorch")
        for n in range(5):
            t = x()
            got, said = captured(t), capsys.readouterr().out
            assert_same(got, around(t))
            assert said == capsys.readouterr().out
            assert captured.stats()["traced"] == min(n + 1, 3)
    report = captured.report()
    assert len(report["closed"]) == 1 and "as a whole" in report["closed"][0]
    graphs = [segment["graph"] for segment in report["segments"]]
    assert graphs[0] and graphs[-1], captured.show()


def test_what_is_done_once_closes_no_function():
    state = {"ready": False}

    def layer(t):
        if not state["ready"]:
            state["ready"] = True
            thing = Thing()
            t = t * (weakref.ref(thing)() is thing)
        return (t + 1).relu()

    captured = _oxytorch.capture(lambda t: layer(t) * 2)
    with torch.no_grad():
        for _ in range(4):
            t = x()
            assert_same(captured(t), (t + 1).relu() * 2)
    assert captured.stats()["traced"] == 2 and captured.stats()["breaks"] == []


def test_what_a_function_computes_behind_a_break_is_not_given_away():
    """Going around it would leave more to Python than there is to win."""

    def inner(t):
        print("before")
        for _ in range(10):
            t = (t + 1).relu()
        print("behind")
        thing = Thing()
        return t * (weakref.ref(thing)() is thing)

    captured = _oxytorch.capture(lambda t: inner(t) * 2)
    with torch.no_grad(), pytest.warns(UserWarning, match="runs as it is: a weak reference"):
        captured(x())
    assert captured.report()["closed"] == []


def test_the_compiled_function_itself_is_left_to_python():
    captured = _oxytorch.capture(weakly)
    with pytest.warns(UserWarning, match="runs as it is: a weak reference"):
        captured(x())
    assert captured.stats()["traced"] == 1 and captured.report()["closed"] == []


def counted(t):
    for n in range(4):
        yield n, t.sum().item()


@contextlib.contextmanager
def scaled(t):
    yield t.abs().max().item()


def iterator_in_a_list(t):
    held = [iter([1, 2, 3])]
    n = t.sum().item()
    next(held[0])
    y = t * n if t.max().item() > 2 else t
    return y, list(held[0])


def generator_in_a_dict(t):
    held = {"it": counted(t)}
    a, n = next(held["it"])
    y = t * n if t.max().item() > 2 else t - a
    b, m = next(held["it"])
    z = y * m if y.max().item() > 20 else y - b
    return z, list(held["it"])


def read_in_a_context(t):
    with scaled(t) as s:
        y = t / s if t.sum().item() > 10 else t * s
    return y


@pytest.mark.parametrize("function", [iterator_in_a_list, generator_in_a_dict, read_in_a_context], ids=lambda f: f.__name__)
def test_iterators_that_objects_hold_go_on_behind_every_action(function):
    """A later call that takes another way goes on from where they stood, not from where they were made."""
    captured = _oxytorch.capture(function)
    for value in (1.0, 2.0, 9.0, 1.0, 9.0, 3.0):
        t = torch.full((2,), value)
        assert_same(captured(t), function(t))


def test_a_function_with_a_loop_that_is_cut_every_few_operations_is_called_as_a_whole():
    """What its callers do behind it is recorded."""

    def loop(x):
        for n in range(50):
            x = (x * 5 + n) % 17 + max(x[n % 4], 8)
        return x

    def function(x):
        for n in range(3):
            x = x + x[n].item() % 2
        return (loop(x + 1).double().exp() * 2).sin() + 1

    compiled = oxytorch.compile(function)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        x = torch.randint(17, (4,), generator=generator)
        assert_same(compiled(x), function(x))
    report = compiled.report()
    assert len(report["closed"]) == 1 and report["closed"][0].endswith("is called as a whole")
    assert compiled.stats()["traced"] == 3
    assert compiled.show().count("run a graph on (") <= 5


def test_a_function_that_makes_a_class_is_called_as_a_whole():
    """It is another class in each call, and what is done with it would be traced anew."""

    def scaled(x):
        class Scale:
            by = 2

            def of(self, x):
                return x * self.by

        return Scale().of(x)

    def function(x):
        return scaled(x + 1).sin() + 1

    compiled = oxytorch.compile(function)
    for _ in range(12):
        x = torch.rand(4)
        assert_same(compiled(x), function(x))
    assert compiled.stats()["traced"] == 3 and compiled.show().count("run a graph on (") == 2


def product_of_two(a, b):
    print(end="")
    return a * b


def one_written(a, b):
    print(end="")
    a.add_(1)
    return b * 2, a + b


def lists_of_two(a, b):
    print(end="")
    a.append(a[0] + 1)
    b.append(b[0] * 2)
    return a is b, len(a), a[-1], b[-1]


def counters_of_two(a, b):
    print(end="")
    a.count += 1
    b.count *= 3
    return a.t * b.t, a.count, b.count


class Counter:
    def __init__(self, t):
        self.t, self.count = t, 1


@pytest.mark.parametrize("function, made", [(product_of_two, torch.clone), (one_written, torch.clone), (lists_of_two, lambda t: [t]), (counters_of_two, Counter)])
def test_two_arguments_that_were_one_object_behind_a_break(function, made):
    """What was traced behind the break of the first call, for one object, was used for two."""
    captured = _oxytorch.capture(function)
    for size, one in ((2, False), (3, True), (3, False), (3, True), (2, True), (2, False)):
        a, b = made(x(size)), made(x(size))
        ours = (a, a if one else b)
        theirs = copy.deepcopy(ours)
        assert_same(captured(*ours), function(*theirs))
