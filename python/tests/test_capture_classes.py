"""Exceptions, generators, context managers, classes."""

import collections
import contextlib
import dataclasses
import enum
import functools

import pytest
import torch
from capturing import check, x
from compare import assert_same

import oxytorch
from oxytorch import _oxytorch


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


class Named(dict):
    """Its entries are attributes: as configurations are kept."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


def test_a_dict_whose_entries_are_attributes():
    def f(t, config):
        config.seen = config.size + config.inner.size
        return t * config.seen, config.inner.kind, hasattr(config, "other"), getattr(config, "kind", None), sorted(config)

    inner = Named(size=2, kind="a")
    check(f, (x(), Named(size=3, inner=inner)), (x(), Named(size=3, inner=inner, other=1)))


def test_tuples_with_names_are_compared_as_tuples():
    def f(t, p, q):
        return t + 1, p == (1, 2), (1, 2) == p, p != q, p < q, p >= (1,), p == Point(None, 1), t.shape == Point(3, 4), (1, 2) in [q, p]

    check(f, (x(), Point(1, 2), Point(1, 3)), (x(), Point(2, 2), Point(2, 2)))


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


class OwnInit(Exception):
    def __init__(self, code, more):
        super().__init__(f"code {code}")
        self.code, self.more = code, more


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


def test_own_exceptions_are_filled_by_their_base():
    def caught(a):
        try:
            raise OwnInit(3, a)
        except OwnInit as error:
            return error.args, error.code, error.more

    check(caught, (x(),))


class Kinds(set):
    pass


class Counted(set):
    def __init__(self, items=()):
        super().__init__(items)
        self.given = len(self)


def test_sets_of_a_class_of_the_program_hold_what_they_are_given():
    def f(t, kinds):
        made = Kinds([1, kinds.size if hasattr(kinds, "size") else 2])
        made.add(len(kinds))
        counted = Counted({1, 2})
        counted.discard(1)
        return t + len(made), made, sorted(kinds), counted, counted.given, Kinds(), list(Kinds("aa"))

    check(f, (x(), Kinds()), (x(), Kinds({3, 4})), (x(), frozenset({1})), (x(), Counted({5})))


class Above:
    @oxytorch.compile
    def compiled(self, x):
        return x + 1

    @property
    def asked(self):
        return 3

    half = functools.partialmethod(lambda self, factor, x: x * factor, 0.5)
    upper = str.upper

    @classmethod
    def own(cls, x):
        return x, cls

    @staticmethod
    def plain(x):
        return x * 3


class Below(Above):
    @classmethod
    def through_super(cls, x):
        above = super()
        made = above.__new__(cls)
        whole = (above.compiled(made, x), above.half(made, x), above.own(x), above.plain(x))
        return whole, above.upper("abc"), isinstance(above.asked, property), above.__hash__(made) == hash(made), above.__setattr__ is object.__setattr__


def test_super_of_a_class_gives_what_is_not_bound():
    for _ in range(2):
        assert_same(oxytorch.compile(lambda x: Below.through_super(x))(torch.ones(3)), Below.through_super(torch.ones(3)))


def test_an_exception_is_asked_for_nothing():
    """Only groups have exceptions inside of them."""

    class Asked(Exception):
        def __getattr__(self, name):
            raise SystemExit(name)

    def raises(x):
        raise Asked("a")

    def holds(x):
        asked = Asked("k")
        print(end="")
        return x + 1, len(asked.args)

    with pytest.raises(Asked):
        oxytorch.compile(raises)(torch.ones(3))
    assert_same(oxytorch.compile(holds)(torch.ones(3)), holds(torch.ones(3)))
