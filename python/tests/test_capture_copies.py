"""Copies that a call makes: by the library, by hooks of the object, of its class and of its metaclass; of tensors and parts of them."""

import copy

import oxytorch
import pytest
import torch
from capturing import x
from compare import assert_same
from oxytorch import _oxytorch
from test_capture_objects import FlatBox


def copies_two_tensors(t):
    u = t.view(-1)
    both = copy.deepcopy([t, u])
    both[0].add_(1)
    return both, t


def copies_one_twice(t):
    both = copy.deepcopy({"a": [t], "b": t})
    both["b"].mul_(2)
    return both["a"][0], t, both["a"][0] is both["b"]


def copies_across(t):
    return copy.deepcopy([t.t()])[0], copy.deepcopy(t * 2)


@pytest.mark.parametrize("function", [copies_two_tensors, copies_one_twice, copies_across])
def test_deep_copies_of_tensors(function):
    captured = _oxytorch.capture(function)
    for _ in range(3):
        t = torch.randn(3, 4)
        got, want = captured(t.clone()), function(t.clone())
        assert_same(got, want)
    copied = captured(t)
    shares = lambda a, b: a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    if function is copies_two_tensors:
        assert shares(*copied[0]) and not shares(copied[0][0], t)


class Given:
    """Has no more than its class says, but for what `__getattr__` gives."""

    def __init__(self, **kept):
        self.__dict__.update(kept)

    def __getattr__(self, name):
        if name in self.given:
            return lambda *args: self.given[name]
        raise AttributeError(name)

    given = {}


class GivesACopy(Given):
    given = {"__deepcopy__": "copied"}


class SetsNoState(Given):
    given = {"__setstate__": None}


class Refuses(Given):
    def __getattr__(self, name):
        raise ValueError(name)


class Intercepts:
    def __getattribute__(self, name):
        return (lambda memo: "intercepted") if name == "__deepcopy__" else object.__getattribute__(self, name)


class Finds:
    """Attributes by other names, as configurations of models have them."""

    names = {"size": "k"}

    def __init__(self):
        self.k = [1]

    def __getattribute__(self, name):
        if name != "names" and name in super().__getattribute__("names"):
            name = super().__getattribute__("names")[name]
        return super().__getattribute__(name)


class Reduced(Finds):
    names = {"__reduce_ex__": "reduced"}

    def reduced(self, protocol):
        return list, ([5],)


class OfAMetaclass(type):
    def __getattr__(cls, name):
        if name == "__copy__":
            return lambda instance: "by its metaclass"
        raise AttributeError(name)


class Copied(metaclass=OfAMetaclass):
    def __init__(self):
        self.k = [1]


class CopiesItself(type):
    def __copy__(cls):
        return cls


class Itself(metaclass=CopiesItself):
    pass


HOOKED = [
    Given(k=[1]),
    Given(k=[1], __deepcopy__=lambda memo: "own"),
    GivesACopy(k=[1]),
    SetsNoState(k=[1]),
    Refuses(k=[1]),
    Intercepts(),
    Finds(),
    Reduced(),
    Copied(),
    Itself(),
]
OWN_HOOKS = {
    "__getstate__": lambda: {"z": 2},
    "__reduce_ex__": lambda protocol: (FlatBox, (), {"w": 3}),
    "__reduce__": lambda: (FlatBox, (), {"w": 4}),
    "__getnewargs__": lambda: (1,),
    "__setstate__": lambda state: None,
    "__deepcopy__": lambda memo: "own",
}


@pytest.mark.parametrize("method", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
@pytest.mark.parametrize("object", HOOKED, ids=lambda object: type(object).__name__)
def test_copies_by_attributes_that_the_class_does_not_have(object, method):
    def function(t, object):
        return t + 1, method(object), method([object])

    def outcome(called):
        try:
            _, *copies = called(x(), object)
        except (TypeError, ValueError) as error:
            return str(error)
        return [vars(found) if isinstance(found, type(object)) else found for found in (copies[0], copies[1][0])]

    captured = _oxytorch.capture(function)
    for _ in range(3):
        assert outcome(captured) == outcome(function)


@pytest.mark.parametrize("method", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
@pytest.mark.parametrize("hook", OWN_HOOKS)
def test_copies_by_attributes_of_the_object_itself(hook, method):
    def outcome(called, is_hooked):
        made = FlatBox()
        made.k = [1]
        if is_hooked:
            setattr(made, hook, OWN_HOOKS[hook])
        try:
            copied = called(x(), made)[1]
        except TypeError as error:
            return str(error)
        return vars(copied) if isinstance(copied, FlatBox) else copied

    def function(t, object):
        return t + 1, method(object)

    captured = _oxytorch.capture(function)
    for is_hooked in (False, True, True, False, True):
        assert outcome(captured, is_hooked) == outcome(function, is_hooked)


ASKED = []


class NotesWhatIsAsked(Given):
    def __getattr__(self, name):
        ASKED.append(name)
        return super().__getattr__(name)


class NotesAHook(NotesWhatIsAsked):
    given = {"__deepcopy__": "copied"}


@pytest.mark.parametrize("kind", [NotesWhatIsAsked, NotesAHook])
@pytest.mark.parametrize("method", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_what_gives_attributes_is_asked_as_often_as_by_the_library(method, kind):
    def function(t, object):
        return t + 1, method(object), method([object])

    def asked(called):
        ASKED.clear()
        called(x(), kind(k=[1]))
        return list(ASKED)

    captured = _oxytorch.capture(function)
    for _ in range(3):
        assert asked(captured) == asked(function)


def test_what_hangs_on_a_tensor_is_copied_with_it():
    captured = _oxytorch.capture(lambda t: copy.deepcopy(t))
    captured(torch.ones(3))
    tagged, graded = torch.ones(3), torch.ones(3)
    tagged.tag, graded.grad = "a", torch.ones(3)
    assert captured(tagged).tag == "a"
    assert_same(captured(graded).grad, torch.ones(3))


WHOLE = torch.arange(8.0)


def copies_part_of_an_outside_tensor(t):
    return copy.deepcopy(WHOLE[2:5]), t + 1


def copies_part_of_a_new_tensor(t):
    return copy.deepcopy((t * 2)[1:2]), t + 1


def copies_the_beginning(t):
    return copy.deepcopy(t.detach()[:2]), t + 1


def copies_the_same_memory(t):
    return copy.deepcopy(t.view(-1)), t + 1


PARTS = [copies_part_of_an_outside_tensor, copies_part_of_a_new_tensor, copies_the_beginning, copies_the_same_memory]


@pytest.mark.parametrize("function", PARTS)
def test_the_copy_of_a_part_has_all_of_the_memory(function):
    captured = _oxytorch.capture(function)
    for t in (torch.ones(3), torch.ones(3), torch.arange(6.0)[1:4]):
        got, want = captured(t), function(t)
        assert_same(got, want)
        assert got[0].storage_offset() == want[0].storage_offset()
        assert got[0].untyped_storage().nbytes() == want[0].untyped_storage().nbytes()


def test_the_copy_of_a_part_that_comes_later():
    captured = _oxytorch.capture(lambda t: (copy.deepcopy(t), t + 1))
    for t in (torch.ones(3), torch.ones(3), torch.arange(6.0)[3:], torch.ones(3)):
        copied = captured(t)[0]
        assert_same(copied, t)
        assert copied.storage_offset() == t.storage_offset()


def test_a_program_sees_where_a_tensor_begins():
    captured = _oxytorch.capture(lambda t: (t.storage_offset(), t[1:].storage_offset(), t + 1))
    for begin in (0, 0, 2):
        assert captured(torch.ones(8)[begin : begin + 4])[:2] == (begin, begin + 1)


@pytest.mark.parametrize(
    "part",
    [lambda t: t[1:], lambda t: t.t(), lambda t: (t * 2)[1:], lambda t: (t + 1).flatten()[t.shape[1] :], lambda t: t * 2],
    ids=["input", "turned", "made", "flat", "whole"],
)
def test_where_a_tensor_begins_where_sizes_vary(part):
    for dynamic in (None, True):
        captured = _oxytorch.capture(lambda t: (part(t).storage_offset(), part(t)), dynamic=dynamic)
        for n in (5, 6, 7, 8, 5):
            t = torch.arange(4.0 * n).view(4, n)
            offset, value = captured(t)
            assert offset == part(t).storage_offset()
            assert_same(value, part(t))


@pytest.mark.parametrize("leaf", [torch.nn.Parameter(torch.ones(3)), torch.ones(3, requires_grad=True)], ids=["parameter", "leaf"])
def test_copies_of_leaves(leaf):
    captured = _oxytorch.capture(lambda t: (t + 1, copy.deepcopy(leaf), copy.deepcopy([leaf, leaf])))
    for _ in range(3):
        _, alone, (first, second) = captured(torch.ones(1))
        assert type(alone) is type(first) is type(leaf) and alone.requires_grad and first.requires_grad
        assert first is second and first is not leaf
        assert_same(alone, leaf)


def test_a_deep_copy_of_computed_tensors_is_one_trace():
    def step(a):
        rows = [a * 2, a + 1, [a]]
        copied = copy.deepcopy(rows)
        copied[0].add_(1)
        return rows, copied, copied[2][0] is a

    captured = _oxytorch.capture(step)
    for _ in range(3):
        a = x()
        assert_same(captured(a), step(a))
    assert captured.stats()["traced"] == 1 and len(captured.stats()["breaks"]) == 1


def test_a_copy_of_what_finds_attributes_by_itself_is_no_break():
    """It was one: models that copy their configuration were two graphs."""
    captured = oxytorch.compile(lambda t, found: (t + 1, copy.deepcopy(found)), fullgraph=True)
    for found in (Finds(), Finds()):
        _, made = captured(torch.ones(2), found)
        assert type(made) is Finds and made is not found and made.size == [1] and made.k is not found.k


class Finder:
    """Notes which attributes it is asked for, hides one, and refuses another."""

    def __init__(self, hidden="", refused=""):
        self.k, self.hidden, self.refused = [1], hidden, refused

    def __getattribute__(self, name):
        own = object.__getattribute__(self, "__dict__")
        ASKED.append(name)
        if name == own.get("hidden"):
            raise AttributeError(name)
        if name == own.get("refused"):
            raise KeyError(name)
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("method", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
@pytest.mark.parametrize("name", ["", "__getnewargs_ex__", "__dict__", "__setstate__", "__deepcopy__", "k"])
def test_what_finds_attributes_by_itself_is_asked_as_by_the_library(method, name):
    def function(t, object):
        return t + 1, method(object)

    def outcome(called, object):
        ASKED.clear()
        try:
            called(x(), object)
        except KeyError as error:
            return str(error), list(ASKED)
        return list(ASKED)

    captured = _oxytorch.capture(function)
    for make in (lambda: Finder(), lambda: Finder(hidden=name), lambda: Finder(refused=name), lambda: Finder()):
        assert outcome(captured, make()) == outcome(function, make())


class Reducing:
    def __init__(self):
        self.v, self.bad = 1, True

    def __reduce_ex__(self, protocol):
        if self.bad:
            raise KeyError(protocol)
        return object.__reduce_ex__(self, protocol)


def test_a_copy_that_raises_once_may_be_made_later():
    """One that raised in the first call was taken to raise in all."""

    def function(object, t):
        if t.sum() > 100:
            return t
        try:
            copied = copy.copy(object)
        except KeyError:
            return t + 1
        return t * 2 * copied.v

    def outcomes(called):
        results, made = [], Reducing()
        for bad, t in ((True, 3.0), (True, 3.0), (False, 3.0), (False, 300.0), (False, 3.0), (True, 4.0), (False, 4.0)):
            made.bad = bad
            results.append(called(made, torch.full((1,), t)).item())
        return results

    assert outcomes(_oxytorch.capture(function)) == outcomes(function)
