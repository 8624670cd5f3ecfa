"""A number that changes from call to call is traced once, by whatever way it comes to a tensor; and a text that is made of it says what it is in this call."""

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import json
import math
import operator
import types
import typing

import compare
import oxytorch
import pytest
import torch

WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


@way
def cell_of_an_inner_function(x, v):
    def scaled(y):
        return y * v

    return scaled(x)


@way
def cell_that_is_written(x, v):
    n = v

    def more():
        nonlocal n
        n = n + 1
        return x * n

    return more() + more()


@way
def closure_of_a_decorator(x, v):
    def scale(s):
        def decorate(f):
            @functools.wraps(f)
            def wrapper(*args, **names):
                return f(*args, **names) * s

            return wrapper

        return decorate

    return scale(v)(lambda y: y + 1)(x)


@way
def default_arguments(x, v):
    def scaled(y, s=v, *, t=v * 2):
        return y * s + t

    return scaled(x)


@way
def partial_arguments(x, v):
    return functools.partial(torch.mul, other=v)(x) + functools.partial(lambda s, y: y * s, v)(x)


class Plain:
    def __init__(self, v):
        self.v = v

    @property
    def twice(self):
        return self.v * 2

    def __call__(self, x):
        return x * self.v


class Slots:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


@way
def attributes(x, v):
    box = Plain(0.0)
    box.v = v
    setattr(box, "w", v + 1)
    return box(x) + box.twice + box.w + Slots(v).v + operator.attrgetter("v")(box)


@way
def namespace(x, v):
    space = types.SimpleNamespace(v=v)
    space.w = v * 2
    return x * space.v + space.w


Named = collections.namedtuple("Named", "a b")


class Typed(typing.NamedTuple):
    a: float
    b: float = 1.0


@way
def named_tuples(x, v):
    first, second = Named(v, 1.0), Typed(v)._replace(b=v * 2)
    return x * first.a + first[1] + second.a * second.b


@dataclasses.dataclass
class Data:
    a: float
    b: float = 1.0
    c: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.d = self.a + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: float
    b: float = 1.0


@way
def dataclasses_of_all_kinds(x, v):
    data, frozen = Data(v), dataclasses.replace(Frozen(v), b=v * 3)
    data.c.append(v)
    return x * data.a + data.d + data.c[0] + frozen.a * frozen.b + dataclasses.asdict(frozen)["b"]


class Table(dict):
    pass


@way
def dicts(x, v):
    first = {}
    first["a"] = v
    first.update(b=v * 2)
    second = {**first, "c": 1.0} | {"d": v * 3}
    second |= {"e": v}
    third = dict(zip("fg", [v, v])) | dict.fromkeys("hi", v)
    return x * second["a"] + second["b"] + second["d"] + second.copy()["e"] + third.get("g") + third.pop("h")


@way
def dicts_of_other_classes(x, v):
    ordered, counted = collections.OrderedDict(a=v), collections.defaultdict(float)
    counted["a"] += v
    return x * ordered["a"] + counted["a"] + Table(a=v)["a"] + Table({"b": v}, c=v)["b"] + Table().setdefault("a", v)


@way
def copies(x, v):
    table = {"v": v, "l": [v, (v,)], "o": Plain(v)}
    shallow, deep = copy.copy(table), copy.deepcopy(table)
    return x * shallow["v"] + deep["l"][0] + deep["l"][1][0] + deep["o"].v + copy.copy(deep["o"]).v


@way
def sums(x, v):
    return x * sum([v, v]) + sum((v,), 0.5) + math.prod([v, 2.0]) + math.fsum([v, 0.25])


@way
def rows_of_tensors(x, v):
    return x + torch.tensor([v, 1.0]) + torch.tensor([[v, 1.0], [2.0, v]]).sum(0) + torch.tensor((v, v * 2), dtype=torch.float64)


@way
def rows_of_factors(x, v):
    return torch._foreach_mul([x, x + 1], [v, v * 2])


@way
def generators(x, v):
    def some():
        yield v
        yield v * 2

    for s in some():
        x = x * s
    return x * list(itertools.accumulate([v, v]))[-1]


@contextlib.contextmanager
def scaled_by(v):
    yield v * 2


@way
def context_managers(x, v):
    with scaled_by(v) as s:
        return x * s


@way
def patterns(x, v):
    match {"a": v, "b": 1}:
        case {"a": s, **rest}:
            x = x * s + rest["b"]
    match Data(v):
        case Data(a=s):
            return x * s


class Amount:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Amount(self.v + other.v)

    def __mul__(self, x):
        return x * self.v

    def __rsub__(self, x):
        return x - self.v

    def __rfloordiv__(self, x):
        return x // self.v

    def __imatmul__(self, x):
        self.v = x.sum()
        return self


@way
def objects_that_meet_tensors(x, v):
    amount = (Amount(v) + Amount(1.0)) * x
    other = Amount(v)
    other @= x
    return amount, x - Amount(v), x // Amount(v), other.v


@way
def sentinels(x, v):
    return x * (v if v is not WAYS else 0.0)


@way
def texts_that_nobody_reads(x, v):
    def log(message, *args, on=False):
        if on:
            print(message, *args)

    text = f"v={v:.2f} {v!r}"
    log(text + "!", f"{v}")
    "{} {}".format(v, 1), "v=%s" % v, str(v)
    return x * v


@way
def texts_that_are_returned(x, v):
    return x * v, f"{v:.3f}/{v}", "v=%s" % v


@way
def texts_of_what_is_used_for_nothing_else(x, v):
    return x + 1, f"{v}", f"step {v}", str(v)


@way
def texts_in_dicts(x, v):
    report = {"loss": x * v, "message": f"step {v}"}
    return report, {"report": report, f"{1}": str(v)}, (report["message"], v)


@functools.singledispatch
def scaled(v, x):
    return x


@scaled.register(int)
@scaled.register(float)
def _(v, x):
    return x * v


@way
def dispatched_by_its_class(x, v):
    return scaled(v, x) if v.__class__ is type(v) else x


NUMBERS = {"float": [0.5 + 0.25 * n for n in range(6)], "int": list(range(3, 9))}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("name", WAYS)
def test_it_is_traced_once(name, numbers):
    captured = oxytorch.compile(WAYS[name])
    x = torch.tensor([1.5, -2.0])
    for v in NUMBERS[numbers]:
        compare.assert_same(captured(x, v), WAYS[name](x, v))
    assert captured.stats()["traced"] == 2, captured.show()
    assert captured.stats()["breaks"] == []


READ = {
    "a key": lambda t, x: {t: x}[t],
    "asked for": lambda t, x: x if t in ("0.5", "1.0") else x * 2,
    "its length": lambda t, x: x * len(t),
    "its letters": lambda t, x: [x * ord(letter) for letter in t],
    "a part": lambda t, x: (x, t[:3], t[-1]),
    "a method": lambda t, x: (x, t.upper(), t.split("."), "-".join([t, t])),
    "a number again": lambda t, x: x * float(t),
    "repeated": lambda t, x: (x, t * 2, t + t, [t], (t,), {"t": t}, {t}),
    "a name": lambda t, x: x * getattr(Plain(2.0), "v" if t < "1" else "twice"),
    "an attribute": lambda t, x: setattr(box := Plain(t), "w", t) or (x, box.v, vars(box)),
    "a truth": lambda t, x: x if t else -x,
    "a pattern": lambda t, x: x * len(list(itertools.takewhile(str.isdigit, t))),
    "an exception": lambda t, x: (x, str(ValueError(t)), KeyError(t).args),
    "a format": lambda t, x: (x, f"{t:>8}", f"{t!r}", "%8s" % t, "{:>7}|{}".format(t, t), format(t, "<6")),
    "compared": lambda t, x: (x, t == "0.75", t is None, t != t, sorted([t, "0.6"])),
    "given on": lambda t, x: (lambda *args, **names: (x, args, names))(t, t=t),
    "from a cell": lambda t, x: (lambda: (x, t))(),
}


HELD = {
    "as it is": lambda t: t,
    "in a tuple": lambda t: (1, t)[1],
    "in a dict": lambda t: {"t": t}["t"],
    "by an iterator": lambda t: next(iter({"t": t}.values())),
    "in a copy": lambda t: {**{"t": t}}.copy().popitem()[1],
    "in a dict that changes": lambda t: {"t": 1, "u": t, "v": 2}.pop("u"),
    "in two dicts": lambda t: ({"t": {"u": t}} | {"v": 1})["t"].get("u"),
    "unpacked": lambda t: (lambda **names: names["t"])(**{"t": t}),
}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("use", READ)
def test_texts_are_those_of_this_call(use, held):
    def function(x, v):
        return READ[use](HELD[held](f"{v}"), x * v)

    captured = oxytorch.compile(function)
    for v in (0.5, 0.75, 1.0, 0.5, 1.25):
        got, want = captured(torch.ones(2), v), function(torch.ones(2), v)
        compare.assert_same(got, want)
        assert repr(got) == repr(want)


def test_a_text_of_two_numbers():
    """The one that stays is a constant of what else is done with it."""

    def function(x, step, layer):
        return x.repeat(layer), f"{step}/{layer}"

    captured = oxytorch.compile(function)
    for step in range(8):
        compare.assert_same(captured(torch.ones(2), step, 3), function(torch.ones(2), step, 3))
    assert captured.stats()["traced"] == 2, captured.show()


DICTS = {
    "its text": lambda d: str(d) + repr(d),
    "equal": lambda d: (d == {"t": "0.75", "n": 1}, d != d, d == {"t": "0.5", "n": 1}),
    "its values": lambda d: ("0.5" in d.values(), list(d.values()), sorted(map(str, d.values())), tuple(d.items())),
    "joined": lambda d: "-".join(str(part) for part in d.values()) + ",".join([d["t"]]),
    "json": lambda d: json.dumps(d),
    "truth": lambda d: all(d.values()) and d.get("t") > "0.6",
    "kept": lambda d: KEPT.append(d) or KEPT[-1],
    "formatted": lambda d: "{t} {n}".format(**d) + "%(t)s" % d,
    "turned": lambda d: {value: key for key, value in d.items()},
    "compared": lambda d: max(d["t"], "0.7") + min([d["t"], "0.9"]),
    "written": lambda d: d.update(t=d["t"] + "!") or d.setdefault("t", 3),
    "copied": lambda d: copy.deepcopy(d),
}
KEPT = []


@pytest.mark.parametrize("use", DICTS)
def test_dicts_of_texts_are_those_of_this_call(use):
    def function(x, v):
        report = {"t": f"{v}", "n": 1}
        return x * v, DICTS[use](report), report

    captured = oxytorch.compile(function)
    for v in (0.5, 0.75, 1.0, 0.5, 1.25):
        got, want = captured(torch.ones(2), v), function(torch.ones(2), v)
        compare.assert_same(got, want)
        assert repr(got) == repr(want)


def test_texts_that_are_printed(capsys):
    def function(x, v):
        y = x * v
        print(f"step {v}")
        return y + 1

    captured = oxytorch.compile(function)
    for v in (0.5, 0.75, 1.0, 1.25, 1.5):
        compare.assert_same(captured(torch.ones(2), v), torch.ones(2) * v + 1)
        assert capsys.readouterr().out == f"step {v}\n"
    assert captured.stats()["traced"] <= 3, captured.show()


def test_keywords_of_a_class_that_is_a_dict():
    def function(x, **names):
        table = Table(**names)
        return x * table["v"], table

    captured = oxytorch.compile(function)
    for v in (1.0, 2.0, 3.0, "text", None, 4.0):
        if v is None or v == "text":
            continue
        compare.assert_same(captured(torch.ones(2), v=v), function(torch.ones(2), v=v))


def test_keywords_of_exceptions():
    def function(x, v):
        return x + 1, AttributeError("none", obj=v).obj

    captured = oxytorch.compile(function)
    for v in (1.0, 2.0, 3.0):
        assert captured(torch.ones(2), v)[1] == v


OPERATIONS = {
    "greater": lambda x, v: (x > v, v > x, x.ge(v), torch.less(x, v), x <= v),
    "equal": lambda x, v: (x == v, x != v, torch.not_equal(x, v), v == x),
    "divided": lambda x, v: (x // v, x % v, torch.remainder(x, v), torch.fmod(x, v), v // (x + 9)),
    "bounds": lambda x, v: (x.clamp_min(v), torch.clamp_max(x, v)),
    "signs": lambda x, v: (torch.copysign(x, -v),),
    "steps": lambda x, v: (torch.nn.functional.threshold(x, v, 2.0),),
    "leaks": lambda x, v: (torch.nn.functional.leaky_relu(x.float(), v), torch.nn.functional.leaky_relu(x.to(torch.bfloat16), v)),
    "written": lambda x, v: (operator.setitem(y := x.float(), 0, v), y, x.float().index_fill(0, torch.tensor([1]), v))[1:],
    "made": lambda x, v: (x.new_tensor([v, 1.0]), x.new_tensor(v)),
    "masks": lambda x, v: (torch.where(x > v, x, v), x[x > v]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_take_it_as_an_input(name, dtype):
    captured = oxytorch.compile(OPERATIONS[name])
    x = torch.tensor([1.5, 2.0, 0.1, 3.0]).to(dtype)
    for v in (0.1, 1.5, 2.0, 2.1, -1.5, math.inf, 0.1):
        (got, error), (want, expected) = outcome(captured, x, v), outcome(OPERATIONS[name], x, v)
        assert error == expected
        compare.assert_same(got, want)
    assert captured.stats()["traced"] == 2 or expected is not None, captured.show()


def outcome(function, *args):
    try:
        return function(*args), None
    except RuntimeError as error:
        return (), str(error)


@pytest.mark.parametrize("kind", [list, tuple])
def test_what_a_slice_leaves_out_is_of_no_interest(kind):
    """As schedulers write the betas of an optimizer: `(momentum, *betas[1:])`."""

    def step(x, held):
        rest = held["pair"][1:]
        held["pair"] = kind((held["n"] * 2, *rest))
        return x * held["old"][::-1][0], rest, held["old"][:] is held["old"]

    compiled = oxytorch.compile(step)
    for n in range(6):
        held, plain = ({"pair": kind((n + 0.5, 0.25)), "n": n + 0.125, "old": kind((1.5, n + 0.75))} for _ in range(2))
        compare.assert_same(compiled(torch.ones(3), held), step(torch.ones(3), plain))
        assert held == plain
    assert compiled.stats()["traced"] == 2


@pytest.mark.parametrize("is_text", [True, False], ids=["text", "number"])
@pytest.mark.parametrize("kind", [int, float])
def test_numbers_that_are_added_to_themselves_again_and_again(kind, is_text):
    """There are a billion ways through all these sums: each is looked at once."""

    def function(x, v):
        for _ in range(30):
            v = v + v
        return x + 1, f"{v}" if is_text else v

    captured = oxytorch.compile(function)
    for v in (3, 4, 5, 6):
        compare.assert_same(captured(torch.ones(2), kind(v)), function(torch.ones(2), kind(v)))
    assert captured.stats()["traced"] <= 2 and len(captured.show()) < 1_000_000
