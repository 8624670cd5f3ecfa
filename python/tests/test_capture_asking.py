"""What C asks objects of the program's: hashes, equality, texts, numbers. The answers follow the objects from call to call."""

import collections
import dataclasses
import decimal
import enum
import itertools
import operator
import typing

import numpy as np
import pytest
import torch
from compare import assert_same
from oxytorch import _oxytorch



def ones():
    return torch.ones(2, 2)


Pair = collections.namedtuple("Pair", "first second")


class Key:
    """All that C asks for depends on `n`."""

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, other):
        return self.n == other.n if isinstance(other, Key) else NotImplemented

    def __lt__(self, other):
        return self.n < other.n

    def __repr__(self):
        return f"Key({self.n})"

    def __index__(self):
        return self.n


def removed(items, item):
    items.remove(item)
    return items


def popped(items, place):
    items.pop(place)
    return items


def stored(items, place):
    items[place] = "here"
    return items


def deleted(items, place):
    del items[place]
    return items


def counted(*keys):
    table = collections.defaultdict(int)
    for key in keys:
        table[key] += 1
    return sorted(table.values())


def unique(keys):
    seen, found = set(), []
    for key in keys:
        if key not in seen:
            seen.add(key)
            found.append(key)
    return len(found)


ASKED = """
o in {p}
o not in {p, q}
o in frozenset([p, q])
o in table
Key(2) in table
(o, 1) in {(p, 1)}
Pair(o, 1) in {Pair(p, 1)}
table.get(o)
table.get(Key(2))
{p: 1}.get(o)
{Key(o.n): 1}.get(Key(p.n))
{p: 1, o: 2}
{**table, o: 9}
table | {o: 3}
len({o, p})
len({k for k in (o, p)})
len({k: 1 for k in (o, p)})
len({*[o, p]})
len(set([o, p]))
len(dict([(o, 1), (p, 2)]))
len(dict.fromkeys([o, p]))
len(dict(table).setdefault(o, "new"))
unique([o, p, q])
unique([Key(o.n), Key(p.n), q])
counted(o, p, q)
{o} == {p}
{o} <= {p, q}
len({o} & {p})
len({o} | {p})
len({o} - {p})
len({o} ^ {p})
{o: 1} == {p: 1}
{1: o} == {1: p}
{1: o} != {1: p}
(o,) == (p,)
(o,) != (p,)
[o] == [p]
[[o], 1] == [[p], 1]
[o, 1] < [p, 2]
(o, 1) >= (p, 0)
o != p
o != 3
[k.n for k in table if k != o]
max((o, 1), (p, 0))
sorted([(o, 1), (p, 0)])
(o, 1) in [(p, 1)]
slice(o, None) == slice(p, None)
"%s" % o
"%r" % o
"%s %d" % (o, 3)
"%d" % o
"%5s|%%" % [o]
"%(a)s" % {"a": o}
str(Pair(o, p))
[0] * o
o * "ab"
[1, 2, 3, 4, 5, 6][o]
[1, 2, 3, 4, 5, 6][:o]
"abcdef"[o:]
stored([1, 2, 3, 4, 5, 6], o)
stored([1, 2, 3, 4, 5, 6], slice(o, None))
deleted([1, 2, 3, 4, 5, 6], o)
popped([1, 2, 3, 4, 5, 6], o)
list(range(o))
list(enumerate("ab", o))
torch.Size([o, 2])
slice(o).indices(5)
list(itertools.islice("abcdef", o))
list(itertools.combinations("abc", o))
bytearray([o])
[p, q].index(o)
[p, q].count(o)
collections.deque([p, q]).index(o)
removed([p, q, o], o)
removed(collections.deque([p, q]), o)
operator.contains({p}, o)
operator.index(o)
object.__eq__(o, p)
""".strip().splitlines()


@pytest.mark.parametrize("asked", ASKED)
def test_the_answer_follows_the_object(asked):
    def run(wrap):
        names = {}
        exec(f"def ask(t, o, p, q, table):\n    u = t + 1\n    answer = {asked}\n    return u * 2, answer", globals(), names)
        ask, told = wrap(names["ask"]), []
        o, p, q = Key(1), Key(1), Key(2)
        table = {p: "p", q: "q"}

        def tell():
            try:
                told.append(repr(ask(ones(), o, p, q, table)))
            except Exception as error:
                told.append(repr(error))

        for n in (1, 1, 2, 5, 3, 1):
            o.n = n
            tell()
        p.n, table = 3, {Key(3): "p", q: "q"}
        tell()
        return told

    assert run(lambda ask: _oxytorch.capture(ask, settings=[("recompile_limit", 100)])) == run(lambda ask: ask)


class Mode(enum.Enum):
    LEFT = 1
    RIGHT = 2


@dataclasses.dataclass(frozen=True)
class Settings:
    n: int


class Plain:
    pass


def test_what_tells_itself_breaks_nothing():
    def ask(t, mode, sizes, settings, other, module):
        seen = set()
        for parameter in module.parameters():
            seen.add(parameter)
        kept = {Mode.LEFT: 1, Mode.RIGHT: 2}[mode], mode in {Mode.LEFT}, sizes in {(1, 2)}, {sizes: 1}.get((1, 2))
        compared = settings == other, [settings] != [other], settings != Settings(3), (t.shape, 1) == (t.shape, 1)
        made = Settings(1) in {Settings(1): 2}, len({Settings(n) for n in (1, 2, 1)}), len({t, t + 1}), {type(settings): 3}[Settings]
        return t + len(seen), kept, compared, made, f"{mode} {sizes}" + "%s %d" % ("a", 3)

    def arguments():
        return ones(), Mode.LEFT, (1, 2), Settings(3), Settings(4), torch.nn.Linear(2, 2)

    captured = _oxytorch.capture(ask)
    for _ in range(3):
        given = arguments()
        assert captured(*given)[1:] == ask(*given)[1:]
    stats = captured.stats()
    assert not stats["breaks"] and stats["traced"] == 1


def test_objects_that_are_told_by_their_addresses_may_become_one():
    def ask(t, p, q):
        return len({p, q}), p in {q}, {p: 1}.get(q), len({p: 1, q: 2}), len({(p, 1), (q, 1)}), t + 1

    captured = _oxytorch.capture(ask)
    for make in (Plain, ones):
        p, q = make(), make()
        for given in ((p, q), (p, p), (q, p), (q, q), (make(), make())):
            assert captured(ones(), *given)[:-1] == ask(ones(), *given)[:-1]


def test_weights_that_are_tied_behind_the_first_call():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

        def forward(self, t):
            return t + sum(1 for _ in self.parameters()), sum(1 for _ in self.modules())

    model = Model()
    captured = _oxytorch.capture(model.forward)

    def check():
        for _ in range(2):
            got, want = captured(ones()), model.forward(ones())
            assert torch.equal(got[0], want[0]) and got[1] == want[1]

    check()
    model.other.weight = model.one.weight
    check()
    model.other = model.one
    check()


def test_a_class_that_gets_a_hash_later():
    class Late:
        def __init__(self, n):
            self.n = n

    def ask(t, p, q):
        return t + 1, p in {q}

    captured = _oxytorch.capture(ask)
    p, q = Late(1), Late(1)
    assert captured(ones(), p, q)[1] is False
    Late.__eq__, Late.__hash__ = (lambda self, other: self.n == other.n), (lambda self: self.n)
    assert captured(ones(), p, q)[1] is True
    p.n = 2
    assert captured(ones(), p, q)[1] is False


def test_what_is_not_in_a_list_is_told_anew():
    def ask(t):
        try:
            return [1, 2].index(t.shape[0])
        except ValueError as error:
            return str(error), t + 1

    captured = _oxytorch.capture(ask)
    for n in (5, 6, 7, 8, 9):
        assert captured(torch.ones(n))[0] == ask(torch.ones(n))[0]


def test_rows_are_repeated_where_methods_have_no_answer():
    class Silent:
        def __rmul__(self, other):
            return NotImplemented

        __mul__ = __rmul__

    class Counting(Silent):
        n = 2

        def __index__(self):
            return self.n

    def ask(t, number):
        told = []
        for repeated in (lambda: [1] * number, lambda: number * "ab", lambda: 2 * number):
            try:
                told.append(repeated())
            except TypeError as error:
                told.append(str(error))
        return told, t + 1

    captured = _oxytorch.capture(ask)
    for number in (Silent(), Counting()):
        for n in (2, 2, 3):
            number.n = n
            assert captured(ones(), number)[0] == ask(ones(), number)[0]


def test_repeated_in_place_it_stays_the_same_list():
    class Counting:
        def __init__(self, n):
            self.n = n

        def __index__(self):
            return self.n

    class Silent(Counting):
        def __rmul__(self, other):
            return NotImplemented

    def ask(t, row, number):
        before = row
        row *= number
        try:
            number *= [1]
        except TypeError as error:
            number = str(error)
        return row, row is before, number, t + 1

    captured = _oxytorch.capture(ask)
    for kind in (Counting, Silent):
        for n in (1, 2, 3):
            row, other = [1], [1]
            assert captured(ones(), row, kind(n))[:-1] == ask(ones(), other, kind(n))[:-1]
            assert row == other
    assert not captured.stats()["breaks"]


class Telling:
    """Tells when it is asked which number it stands for."""

    def __init__(self, name, n, told):
        self.name, self.n, self.told = name, n, told

    def __index__(self):
        self.told.append(self.name)
        if self.n is None:
            raise RuntimeError(self.name)
        return self.n


def cut(items, *bounds):
    items[slice(*bounds)] = []
    return items


@pytest.mark.parametrize("numbers", [(1, 5, 2), (1, 5, 0), (-1, 5, 1), (1, -1, 1), (None, 5, 1), (1, None, 1), (1, 5, None)])
@pytest.mark.parametrize(
    "asked", ["list(range(9))[a:b:c]", "'abcdefgh'[a:b:c]", "cut(list(range(9)), a, b)", "list(itertools.islice('abcdefgh', a, b, c))"]
)
def test_numbers_are_asked_for_in_the_order_of_c(asked, numbers):
    def run(wrap):
        names = {}
        exec(f"def ask(t, a, b, c):\n    u = t + 1\n    answer = {asked}\n    return u, answer", globals(), names)
        ask, told = wrap(names["ask"]), []
        for _ in range(2):
            try:
                told.append(ask(ones(), *[Telling(name, n, told) for name, n in zip("abc", numbers)])[1])
            except Exception as error:
                told.append(repr(error))
        return told

    assert run(_oxytorch.capture) == run(lambda ask: ask)


class Word(str, enum.Enum):
    A = "a"
    B = "b"


def test_a_text_and_an_equal_member_of_an_enumeration_are_one_key():
    def ask(t, table):
        table["a"] = table["a"] + 1
        table[Word.A] = table[Word.A] + 10
        table["b"], table[Word.B] = t.shape[0], t.shape[0] * 2
        return t + table["a"], table["b"]

    captured = _oxytorch.capture(ask)
    table, other = {Word.A: 1, Word.B: 2}, {Word.A: 1, Word.B: 2}
    for n in (2, 3, 4, 5):
        got, want = captured(torch.ones(n), table), ask(torch.ones(n), other)
        assert torch.equal(got[0], want[0]) and got[1] == want[1] and table == other


def test_what_a_hash_runs_is_run_once():
    told = []

    class Inner:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            told.append("hash")
            return self.n

        def __eq__(self, other):
            told.append("eq")
            return self.n == other.n

    class ByProperty:
        def __init__(self, n):
            self.kept = n

        @property
        def n(self):
            told.append("n")
            return self.kept

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, other):
            return self.n == other.n

    class ByPart(ByProperty):
        n = property(lambda self: None)

        def __init__(self, n):
            self.part = [Inner(n)]

        def __hash__(self):
            return hash(tuple(self.part))

        def __eq__(self, other):
            return self.part == other.part

    def ask(t, kind, n):
        return t + 1, len({kind(n), kind(1), kind(2)})

    captured = _oxytorch.capture(ask)
    for kind in (ByProperty, ByPart):
        for n in (1, 1, 2, 3):
            got, mine = captured(ones(), kind, n)[1], list(told)
            told.clear()
            assert (got, mine) == (ask(ones(), kind, n)[1], told)
            told.clear()


@typing.runtime_checkable
class Runs(typing.Protocol):
    def run(self): ...


class Runner(Runs):
    def run(self):
        return 1


class Other:
    def run(self):
        return 2


class Way(enum.Enum):
    UP = "up"
    DOWN = "down"

    @classmethod
    def _missing_(cls, value):
        return cls.DOWN


def test_what_a_class_tells_breaks_nothing():
    def ask(t, runner, other, way):
        kinds = isinstance(runner, Runner), isinstance(other, Runner), isinstance(other, Runs), isinstance(other, (int, Runs))
        return kinds, Way(way), Way(Way.UP), t + 1

    captured = _oxytorch.capture(ask)
    for way in ("up", "up", "down"):
        assert captured(ones(), Runner(), Other(), way)[:-1] == ask(ones(), Runner(), Other(), way)[:-1]
    assert not captured.stats()["breaks"]
    assert captured(ones(), Runner(), Other(), "left")[1] is Way.DOWN


def declining(base):
    """A class that leaves every operator to the other side."""
    names = "eq ne lt gt add or".split()
    body = {f"__{name}__": lambda self, other: NotImplemented for name in names}
    return type(base.__name__.title(), (base,), {**body, "__hash__": None})


class Answering:
    def __radd__(self, other):
        return "radd", type(other).__name__

    def __eq__(self, other):
        return "eq"

    def __gt__(self, other):
        return "gt"


class Adding(int):
    def __radd__(self, other):
        return "radd"


class Unlike:
    def __ne__(self, other):
        return "unlike"


class UnlikeRow(list):
    def __ne__(self, other):
        return "unlike"


SIDES = {
    "row": declining(list)([1]),
    "number": declining(int)(2),
    "text": declining(str)("a"),
    "table": declining(dict)(a=1),
    "answering": Answering(),
    "adding": Adding(2),
    "unlike": Unlike(),
    "unlike_row": UnlikeRow([1]),
    "array": np.ones(2),
    "scalar": np.float64(1),
    "decimal": decimal.Decimal(1),
}


@pytest.mark.parametrize(
    "expression",
    """
    [1] == row; row == [1]; [1] != row; row != [1]; [2] == row; (1,) == row; row + [1]; [1] + row
    number + 1; number + 1.5; number < 3; 3 > number; 3 < number; number == 2; 2.0 == number; number != 2; 2 in [number]; [number] == [2]; max(1, number)
    text == "a"; "a" == text; "b" + text; table == {"a": 1}; {"a": 1} == table; table | {"b": 1}
    1.5 + adding; 1 + adding; decimal + adding; decimal + number; number + decimal
    1 != unlike; unlike != 1; "a" != unlike; unlike != unlike; None != unlike; [1] != unlike_row; unlike_row != [1]
    array + answering; array == answering; array < answering; scalar + answering; array != unlike_row; unlike_row != array; row + array
    """.replace("\n", ";").split(";")[1:-1],
)
def test_a_class_of_c_knows_what_a_class_of_the_program_is_made_of(expression):
    step = eval(f"lambda t: (t + 1, {expression})", SIDES)
    captured = _oxytorch.capture(step)
    for _ in range(3):
        assert outcome(captured) == outcome(step)


def outcome(step):
    try:
        found = step(torch.ones(2))[1]
    except TypeError as error:
        return str(error)
    return type(found), str(found)


class Unordered(list):
    def __lt__(self, other):
        return NotImplemented


def test_comparisons_of_one_class_are_asked_of_both_sides():
    def f(t):
        return t + 1, Unordered([1]) < Unordered([2]), Unordered([2]) < Unordered([1]), Unordered([1]) < [2], [0] < Unordered([1])

    captured, t = _oxytorch.capture(f), torch.ones(2)
    for _ in range(2):
        assert_same(captured(t), f(t))


@pytest.mark.parametrize("kind", ["bool_", "complex64", "float16", "int8", "complex128"])
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_numbers_of_numpy_are_what_torch_takes_them_for(kind):
    one = getattr(np, kind)(1)

    def f(t):
        return t * one, torch.add(t > 0, one), torch.full((2,), one)

    captured, t = _oxytorch.capture(f), torch.arange(3)
    for _ in range(2):
        assert_same(captured(t), f(t))
