"""Our own capture against plain CPython: result, exception, effects on others and object identity, on the first call and on later ones."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import math
import operator
import warnings

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from compare import assert_same
from oxytorch import _oxytorch


def outcome(function, *args, **kwargs):
    """The result, or the exception's type and text."""
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, (type(error), str(error))


def check(function, *calls, breaks=0, traced=None, kwargs=None):
    """Calls the captured and the plain function three times with each of the arguments."""
    captured = _oxytorch.capture(function)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("error", message="oxytorch")
        for args in calls:
            for _ in range(3):
                want, want_error = outcome(function, *copy.deepcopy(args), **(kwargs or {}))
                got, got_error = outcome(captured, *copy.deepcopy(args), **(kwargs or {}))
                assert got_error == want_error
                assert_same(got, want)
    stats = captured.stats()
    assert len(stats["breaks"]) == breaks, stats["breaks"]
    assert stats["traced"] == (len(calls) if traced is None else traced), captured.show()
    return captured


def x(*shape):
    return torch.randn(*(shape or (3, 4)))


# Straight-line code.


def scale_and_shift(t):
    return (t * 2 + 1).relu()


def view_and_write(t):
    y = t.clone()
    y[0] = 7
    y[:, 1:3] += 1
    return y.t(), y.view(-1)[2:5]


def keyword_only(t, *rest, factor=2, **options):
    for other in rest:
        t = t + other
    return t * factor - options.get("less", 0)


def uses_closure():
    factor, offset = 3, torch.ones(4)

    def inner(t):
        def innermost(u):
            return u * factor

        return innermost(t) + offset

    return inner


def comprehension(t):
    rows = [row * n for n, row in enumerate(t)]
    table = {n: row for n, row in enumerate(rows) if n != 1}
    return torch.stack(rows), table, {n % 2 for n in range(4)}


def text(t):
    name = f"{t.shape[0]:>4}|{t.dim()!r}|{'x':<3}"
    return t, name, "%d-%s" % (t.size(1), t.dtype)


def unpacking(t):
    a, *rest, b = t.unbind(0)
    (c, d), e = (a, b), len(rest)
    return c + d, e, [*rest, a], {**{"a": 1}, "b": b}


def conditions(t, flag=True, mode="fast"):
    if flag and mode == "fast" and t.shape[0] > 2:
        t = t.cos()
    elif not flag or t.dtype is torch.float64:
        t = t.sin()
    return t if t.dim() == 2 else None


def loops(t):
    total = torch.zeros(())
    for n in range(10):
        if n == 2:
            continue
        if n > 5:
            break
        total = total + t.sum() * n
    else:
        total = total - 1
    k = 3
    while k:
        total, k = total + k, k - 1
    return total


def slices_of_lists(t):
    parts = [t + n for n in range(5)]
    return parts[1:3], parts[::-1][0], parts[-1], sorted([3, 1, 2], reverse=True), sum([1, 2, 3]), max(4, 9), min([2, 8])


def strings(t):
    return t, "a,b".split(","), "-".join(str(n) for n in range(3)), "AbC".lower(), "x" in "axb", "abc".replace("b", "d")


def builtins_on_numbers(t):
    return t + abs(-3), math.sqrt(16.0), divmod(7, 2), round(2.6), int("7"), float("1.5"), bool([]), list(range(3)), hash("a") == hash("a")


def in_place_input(t):
    t.add_(1)
    t[0] *= 2
    return t.sum()


def same_object_back(t):
    return t, [t, t], {"t": t}


def nested_containers(t):
    box = {"a": [t, (t + 1, None)], "b": collections.OrderedDict(c=t * 2)}
    box["a"].append(3)
    box.setdefault("d", []).append(t - 1)
    return box, len(box), list(box), "a" in box, box.get("z", 5)


def lambda_and_partial(t):
    add = lambda u, k=1: u + k  # noqa: E731
    more = functools.partial(add, k=3)
    return more(t), functools.reduce(operator.add, [t, t, t]), list(map(add, [t, t])), [*filter(None, [0, 1, 2])]


def zip_enumerate(t):
    pairs = list(zip(t, range(3)))
    return [a * b for a, b in pairs], [(n, r.shape) for n, r in enumerate(t, 1)], list(reversed([1, 2])), any([0, 1]), all([1, 0])


def factories(t):
    n = t.shape[0]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return torch.arange(n), torch.zeros_like(t), torch.full((2,), 3.0), mask, t.new_zeros(2), torch.tensor([1.0, 2.0])


def properties_of_tensors(t):
    return t.shape, t.dtype, t.device, t.ndim, t.numel(), t.is_contiguous(), t.stride(), t.T, t.mT, len(t), t.is_floating_point()


STRAIGHT = [
    scale_and_shift, view_and_write, uses_closure(), comprehension, text, unpacking, conditions, loops, slices_of_lists, strings,
    builtins_on_numbers, same_object_back, nested_containers, lambda_and_partial, zip_enumerate, factories, properties_of_tensors,
]  # fmt: skip


@pytest.mark.parametrize("function", STRAIGHT, ids=lambda f: f.__name__)
def test_straight(function):
    check(function, (x(),))


def test_arguments():
    check(keyword_only, (x(),), (x(), x()), (x(), x(), x()), kwargs={"factor": 5, "less": 2})


def test_in_place_on_an_input():
    captured = _oxytorch.capture(in_place_input)
    for _ in range(3):
        a = x()
        b = a.clone()
        with torch.no_grad():
            assert_same(captured(a), in_place_input(b))
        assert_same(a, b)
    assert captured.stats()["traced"] == 1


def test_objects_keep_their_identity():
    captured = _oxytorch.capture(same_object_back)
    for _ in range(2):
        t = x()
        a, b, c = captured(t)
        assert a is t and b[0] is t and b[1] is t and c["t"] is t


# Modules.


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.act = nn.Sequential(nn.GELU(), nn.Dropout(0.5))
        self.register_buffer("scale", torch.full((width,), 2.0))
        self.flag = True

    def forward(self, t, mask=None):
        h = self.norm(t)
        for layer in self.layers:
            h = self.act(layer(h))
        if mask is not None:
            h = h * mask
        return t + h * self.scale if self.flag else h


class Net(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.heads = nn.ModuleDict({"a": nn.Linear(width, 3), "b": nn.Linear(width, 2)})

    def forward(self, t):
        h = self.blocks(t)
        return {name: head(h) for name, head in self.heads.items()}


def test_module_in_one_graph():
    check(Net().eval(), (x(5, 8),))


def test_module_changes_are_noticed():
    net = Net().eval()
    captured = _oxytorch.capture(net)
    t = x(5, 8)

    def same():
        with torch.no_grad():
            assert_same(captured(t), net(t))

    same()
    net.blocks[0].flag = False
    same()
    net.blocks[0].flag = True
    same()
    assert captured.stats()["traced"] == 2
    net.heads["a"].weight.data.mul_(3)
    same()
    net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})
    same()
    assert captured.stats()["traced"] == 2
    net.blocks[1].act[0] = nn.ReLU()
    same()
    seen = []
    hook = net.blocks.register_forward_hook(lambda *_: seen.append(1))
    same()
    assert len(seen) == 2
    hook.remove()
    same()
    net.train()
    net.blocks[0].act[1].p = net.blocks[1].act[1].p = 0.0
    same()


FACTOR = 2.0


def uses_global(t):
    return t * FACTOR + helper(t)


def helper(t, k=1):
    return t - k


def test_globals_defaults_closures_are_guarded(monkeypatch):
    captured = _oxytorch.capture(uses_global)
    t = x()
    same = lambda: assert_same(captured(t), uses_global(t))  # noqa: E731
    same()
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    same()
    monkeypatch.setattr(helper, "__defaults__", (7,))
    same()
    monkeypatch.setitem(globals(), "helper", lambda t: t * 0)
    same()
    value = 1

    def inner(t):
        return t + value

    captured = _oxytorch.capture(inner)
    assert_same(captured(t), t + 1)
    value = 2
    assert_same(captured(t), t + 2)


def test_shapes_dtypes_and_numbers_are_guarded():
    def f(t, n):
        return t.sum(0) * n + t.shape[0]

    check(f, (x(3, 4), 2), (x(5, 4), 2), (x(3, 4).double(), 2), (x(3, 4), 3), (x(3, 4), 2.5))


def test_later_calls_run_no_python():
    count = 0

    class Counting(nn.Module):
        def forward(self, t):
            return t * 2

    module = Counting()

    def f(t):
        return module(t) + 1

    captured = _oxytorch.capture(f)
    t = x()
    captured(t)
    import sys

    def trace(frame, event, arg):
        nonlocal count
        count += frame.f_code.co_filename == __file__
        return None

    sys.setprofile(lambda *a: trace(*a))
    captured(t)
    sys.setprofile(None)
    assert count <= 1  # setprofile's own line


def test_identity_is_guarded():
    def f(a, b):
        return a + 1 if a is b else a * b

    captured = _oxytorch.capture(f)
    a, b = x(), x()
    for args in ((a, a), (a, b), (b, a), (b, b)):
        assert_same(captured(*args), f(*args))


# Effects on others.


class Counter:
    def __init__(self):
        self.n, self.seen, self.last, self.table = 0, [], None, {}

    def step(self, t):
        self.n += 1
        self.seen.append(t.sum())
        self.last = t * 2
        self.table[self.n % 2] = t
        return self.last + self.n


def test_effects_are_replayed():
    a, b = Counter(), Counter()
    captured = _oxytorch.capture(a.step)
    for n in range(6):
        t = x()
        assert_same(captured(t), b.step(t))
        assert a.n == b.n == n + 1
        assert len(a.seen) == len(b.seen)
        assert_same(a.seen, b.seen)
        assert_same(a.last, b.last)
        assert_same(a.table, b.table)
        assert a.table[(n + 1) % 2] is t


LOG = []


def test_effects_on_globals_and_cells():
    total = 0

    def f(t):
        nonlocal total
        global FACTOR2
        total += 1
        FACTOR2 = total * 2
        LOG.append(total)
        return t + total

    captured = _oxytorch.capture(f)
    for n in range(4):
        t = x()
        assert_same(captured(t), t + n + 1)
        assert total == n + 1 and FACTOR2 == 2 * total and LOG == list(range(1, n + 2))


def test_buffers_are_written():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("steps", torch.tensor(0))

        def forward(self, t):
            self.mean.mul_(0.9).add_(t.mean(0), alpha=0.1)
            self.steps += 1
            return t - self.mean

    a, b = Running(), Running()
    captured = _oxytorch.capture(a)
    for _ in range(3):
        t = x()
        with torch.no_grad():
            assert_same(captured(t), b(t))
        assert_same(a.mean, b.mean)
        assert_same(a.steps, b.steps)


# Breaks.


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
    with pytest.raises(RuntimeError, match="fullgraph.*test_capture.py:"):
        captured(x())


# Exceptions, generators, context managers, classes.


def caught(t):
    try:
        if t.shape[0] == 3:
            raise ValueError("three")
        t = t + 1
    except (KeyError, ValueError) as error:
        t = t * len(str(error))
    finally:
        t = t - 1
    return t


def raises(t):
    y = t + 1
    raise KeyError(f"shape {y.shape[0]}")


def raises_in_helper(t):
    try:
        raises(t)
    except LookupError as error:
        return t + 2, type(error).__name__, error.args
    return t


def from_cause(t):
    try:
        [][1]
    except IndexError as error:
        raise RuntimeError("outer") from error


def generator(t):
    def rows(u):
        for row in u:
            sent = yield row * 2
            if sent is not None:
                yield sent
        return "done"

    def outer(u):
        result = yield from rows(u)
        yield result

    return list(outer(t)), sum(row.sum() for row in t), next(rows(t))


@contextlib.contextmanager
def doubled(box):
    box.append("in")
    try:
        yield 2
    finally:
        box.append("out")


def managers(t):
    box = []
    with torch.no_grad(), doubled(box) as k:
        y = t * k
    with torch.enable_grad():
        z = torch.is_grad_enabled()
    with contextlib.suppress(ValueError):
        raise ValueError
    return y, box, z, torch.is_grad_enabled()


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: int = 3
    c: list = dataclasses.field(default_factory=list)


Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Base:
    factor = 3

    def __init__(self, t):
        self.t = t

    @property
    def twice(self):
        return self.t * 2

    @classmethod
    def make(cls, t):
        return cls(t)

    @staticmethod
    def plus(a, b):
        return a + b

    def __add__(self, other):
        return type(self)(self.t + getattr(other, "t", other))

    def __call__(self, k):
        return self.t * k

    def __len__(self):
        return self.t.shape[0]

    def __getitem__(self, n):
        return self.t[n]

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return self.t + len(name)
        raise AttributeError(name)


class Derived(Base):
    def __init__(self, t):
        super().__init__(t + 1)

    @property
    def twice(self):
        return super().twice + 1


def classes(t):
    d = Derived.make(t)
    e = d + Base(t) + 1
    return e.t, d.twice, d(2), len(d), d[0], d.dyn_abc, d.plus(t, t), d.factor, hasattr(d, "nothing"), isinstance(d, Base), bool(d)


def data_classes(t):
    p = Pair(t + 1, c=[t])
    q = Point(t, y=2)
    return p.a, p.b, p.c, q, q.x, q._replace(y=3), Colour(2) is Colour.BLUE, Colour.RED.value, p == p


def returns_instance(t):
    return Pair(t * 2, 5)


def exit_swallows(t):
    class Quiet:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return True

    with Quiet():
        raise ValueError
    return t


def matching(t, kind):
    match kind:
        case [a, b]:
            return t + a + b
        case "x" | "y":
            return t * 2
        case int(n) if n > 3:
            return t - n
        case _:
            return t


MORE = [caught, raises, raises_in_helper, from_cause, generator, managers, classes, data_classes]


@pytest.mark.parametrize("function", MORE, ids=lambda f: f.__name__)
def test_more(function):
    check(function, (x(),))


def test_caught_only_for_one_shape():
    check(caught, (x(3, 2),), (x(4, 2),))


def test_an_instance_is_rebuilt():
    captured = _oxytorch.capture(returns_instance)
    for _ in range(3):
        t = x()
        pair = captured(t)
        assert type(pair) is Pair and pair.b == 5 and pair.c == []
        assert_same(pair.a, t * 2)
    assert captured.stats()["traced"] == 1


def test_what_is_not_captured_runs_as_it_is():
    for function, args in ((exit_swallows, (x(),)), (matching, (x(), [1, 2])), (matching, (x(), 5))):
        captured = _oxytorch.capture(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                assert_same(captured(*args), function(*args))


def test_memory_stays_flat():
    captured = _oxytorch.capture(nested_containers)
    t = x()
    for _ in range(10):
        captured(t)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        captured(t)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_a_changed_container_is_read_again():
    class Box:
        def __init__(self):
            self.items, self.table = [1, 2], {"a": 1}

        def step(self, t):
            self.items.append(len(self.items))
            self.table["b"] = self.table.get("b", 0) + 1
            if len(self.items) > 4:
                self.items.clear()
            return t + sum(self.items) + sum(self.table.values()), sorted(self.table)

    a, b = Box(), Box()
    captured = _oxytorch.capture(a.step, settings=[("recompile_limit", 100)])
    for _ in range(8):
        t = x()
        assert_same(captured(t), b.step(t))
        assert a.items == b.items and a.table == b.table


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "resnet50", "unet", "llama", "graphsage"])
def test_workload_in_one_graph(name):
    import zoo

    workload = zoo.build(name, sizes=zoo.TEST_SIZES)
    want = workload.run(workload.model)
    captured = _oxytorch.capture(workload.model, fullgraph=True)
    for _ in range(2):
        assert_same(workload.run(captured), want)
    stats = captured.stats()
    assert (stats["traced"], stats["segments"], stats["breaks"]) == (1, 1, [])


def test_threads():
    import concurrent.futures

    captured = _oxytorch.capture(comprehension)
    inputs = [x(n % 3 + 2, 4) for n in range(24)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for got, t in zip(pool.map(captured, inputs), inputs):
            assert_same(got, comprehension(t))


def test_an_interrupt_leaves_no_trace():
    strikes = [1]

    def f(t):
        if strikes and strikes.pop():
            raise KeyboardInterrupt
        return t + 1

    captured = _oxytorch.capture(f)
    with pytest.raises(KeyboardInterrupt):
        captured(x())
    t = x()
    assert_same(captured(t), t + 1)


def test_odd_callables():
    with pytest.raises(TypeError):
        _oxytorch.capture(3)
    t = x()
    assert_same(_oxytorch.capture(torch.sin)(t), t.sin())
    assert _oxytorch.capture(len)([1, 2]) == 2
    assert list(_oxytorch.capture(lambda n: (k for k in range(n)))(3)) == [0, 1, 2]
    assert isinstance(_oxytorch.capture(Base)(t), Base)

    def generator_function(u):
        yield u + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(list(_oxytorch.capture(generator_function)(t)), [t + 1])

    def recursive(u, n):
        return u if n == 0 else recursive(u + 1, n - 1)

    assert_same(_oxytorch.capture(recursive)(t, 5), recursive(t, 5))
    made = {}
    exec("def g(u):\n    return u * 2", made)
    assert_same(_oxytorch.capture(made["g"])(t), t * 2)


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


def test_attributes_that_a_function_gets_later():
    def make():
        def counts(a):
            counts.n = getattr(counts, "n", 0) + 1
            return a * counts.n

        return counts

    plain, function = make(), make()
    captured = _oxytorch.capture(function)
    t = x()
    for _ in range(4):
        assert_same(captured(t), plain(t))
        assert function.n == plain.n


def test_the_order_of_an_ordered_dict():
    def ordered(a):
        table = collections.OrderedDict(p=a, q=1)
        table["r"] = 2
        table.move_to_end("p")
        return table, list(table)

    captured = _oxytorch.capture(ordered)
    for _ in range(3):
        got, want = captured(x()), ordered(x())
        assert list(got[0]) == got[1] == list(want[0]) == want[1]


@dataclasses.dataclass(frozen=True)
class FrozenKey:
    n: int


class OwnInit(Exception):
    def __init__(self, code, more):
        super().__init__(f"code {code}")
        self.code, self.more = code, more


def test_exceptions_and_keys_are_rebuilt_whole():
    def raises(a, kind):
        try:
            [][1]
        except IndexError as error:
            if kind == "from":
                raise ValueError("v") from error
            if kind == "none":
                raise ValueError("v") from None
            if kind == "own":
                raise OwnInit(3, a)
            raise ValueError("v")

    t = x()
    for kind in ("from", "none", "context", "own"):
        captured = _oxytorch.capture(raises)
        for _ in range(3):
            with pytest.raises(Exception) as got:
                captured(t, kind)
            with pytest.raises(Exception) as want:
                raises(t, kind)
            got, want = got.value, want.value
            assert type(got) is type(want) and str(got) == str(want) and got.__suppress_context__ == want.__suppress_context__
            assert repr(got.__cause__) == repr(want.__cause__) and repr(got.__context__) == repr(want.__context__)
            assert_same(getattr(got, "more", 0), getattr(want, "more", 0))

    captured = _oxytorch.capture(raises)
    for outer in (None, KeyError("outer"), OSError("other")):
        try:
            try:
                if outer:
                    raise outer
                captured(x(), "context")
            except (KeyError, OSError):
                captured(x(), "context")
        except ValueError as error:
            assert isinstance(error.__context__, IndexError) and error.__context__.__context__ is outer

    def keyed(a):
        return {FrozenKey(1): a + 1, FrozenKey(2): 2}

    captured = _oxytorch.capture(keyed)
    for _ in range(3):
        got = captured(x())
        assert got == {FrozenKey(1): got[FrozenKey(1)], FrozenKey(2): 2}


def test_iterators_that_come_out_are_cpythons():
    def several(a):
        def numbers(n, *rest, k=2, **more):
            yield a * n
            yield lambda: n

        it = iter([1, 2, 3])
        next(it)
        generators = numbers(2, 3, k=4, m=5), (a * n for n in (1, 2))
        return it, zip([a], "p"), {"e": [enumerate("pq", 3)]}, map(abs, [-1]), *generators, iter({"k": 1})

    captured = _oxytorch.capture(several)
    t = x()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            got, want = captured(t), several(t)
            assert [type(g) for g in got] == [type(w) for w in want]
            assert list(got[0]) == [2, 3] and list(got[2]["e"][0]) == [(3, "p"), (4, "q")] and list(got[3]) == [1] and list(got[6]) == ["k"]
            assert_same(list(got[1]), list(want[1]))
            assert_same(next(got[4]), next(want[4]))
            assert next(got[4])() == 2
            assert_same(list(got[5]), list(want[5]))


class Odd:
    def __init__(self, **methods):
        self.methods = methods

    def __len__(self):
        return self.methods["len"]

    def __bool__(self):
        return self.methods["bool"]

    def __float__(self):
        return 2.5

    def __complex__(self):
        return 1j

    def __index__(self):
        return 3

    def keys(self):
        return ["p", "q"]

    def __getitem__(self, key):
        return key * 2


def test_special_methods_are_asked_and_checked_as_cpython_does():
    check(lambda a: (len(Odd(len=-1)), a), (x(),))
    check(lambda a: (len(Odd(len="n")), a), (x(),))
    check(lambda a: (bool(Odd(bool=1)), a), (x(),))
    check(lambda a: (float(Odd()), complex(Odd()), int(Odd()), a), (x(),))
    check(lambda a: (sum([0.1] * 10), sum([1, 2.5, True]), sum(range(5)), a), (x(),))
    check(lambda a: (dict(Odd()), a), (x(),))
    check(lambda a: dict([1]), (x(),))
    check(lambda a: dict([(1, 2, 3)]), (x(),))

    def stops(a):
        def numbers():
            yield 1
            return (a, 2)

        it = numbers()
        next(it)
        try:
            next(it)
        except StopIteration as stop:
            return stop.value

    check(stops, (x(),))


def test_calls_that_cpython_refuses():
    def inner(p, /, q=1, **options):
        return p, q, options

    def one_or_two(p, q=1):
        return p, q

    check(lambda a: inner(a, **{1: a}), (x(),))
    check(lambda a: one_or_two(1, 2, 3), (x(),))
    check(lambda a: (lambda p, /: p)(p=1), (x(),))
    check(lambda a: inner(*3), (x(),))
    check(lambda a: inner(a, **{"k": 1}, **{"k": 2}), (x(),))
    check(lambda a: FrozenKey(), (x(),))

    def unpacks(a):
        p, q = 3
        return p

    check(unpacks, (x(),))


@functools.lru_cache
def cached_list(n):
    return [n]


def test_a_cache_gives_the_same_object_again():
    captured = _oxytorch.capture(lambda a: (cached_list(3), a + 1))
    for _ in range(3):
        assert captured(x())[0] is cached_list(3)
    cached_list.cache_clear()
    assert captured(x())[0] is cached_list(3)


def test_out_that_gets_its_size():
    def into_empty(a):
        out = torch.empty(0)
        torch.mul(a, a, out=out)
        return out, out.shape

    check(into_empty, (x(),), breaks=1)


def test_lists_backwards():
    def backwards(a, items):
        it = reversed(items)
        return next(it), [a * n for n in it], list(reversed((1, 2))), list(reversed("pq"))

    check(backwards, (x(), [1, 2, 3]), (x(), [4, 5]))

    def shrinks(a):
        items = [1, 2, 3]
        return [items.pop() and n for n in reversed(items)], a

    check(shrinks, (x(),))

    captured = _oxytorch.capture(lambda items: reversed(items))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        it = captured([1, 2])
        assert type(it) is type(reversed([])) and list(it) == [2, 1]


def test_own_exceptions_are_filled_by_their_base():
    def caught(a):
        try:
            raise OwnInit(3, a)
        except OwnInit as error:
            return error.args, error.code, error.more

    check(caught, (x(),))
