"""Objects that hold others very deeply, or hold themselves: functions that call themselves for what is inside would run out of stack."""

import copy

import oxytorch
import pytest
import torch

DEEP = 100_000
# CPython's own stack is full where it lets go of more of them.
SLICES = 50_000


def deep(kind):
    return SLICES if kind == "slice" else DEEP


def nested(kind, inside=()):
    hold, _ = HOLDERS[kind]
    for _ in range(deep(kind)):
        inside = hold(inside)
    return inside


def depth(object, within):
    count = 0
    while (object := within(object)) is not None:
        count += 1
    return count


class Link:
    def __init__(self, behind):
        self.behind = behind


HOLDERS = {
    "list": (lambda inside: [inside], lambda object: object[0] if object else None),
    "tuple": (lambda inside: (inside,), lambda object: object[0] if object else None),
    "dict": (lambda inside: {"in": inside}, lambda object: object["in"] if object else None),
    "frozenset": (lambda inside: frozenset([inside]), lambda object: next(iter(object), None)),
    "slice": (slice, lambda object: object.stop if isinstance(object, slice) else None),
    "link": (Link, lambda object: object.behind if isinstance(object, Link) else None),
}


def given(x, object):
    return x + 1, object


def measured(x, object):
    n = 0
    while isinstance(object, list):
        object, n = object[0] if object else None, n + 1
    return x + n, None


def used_as_key(x, object):
    return x + 1, {object: 1}[object] if isinstance(object, (tuple, frozenset)) else None


def hashed(x, object):
    return x + 1, hash(object) if isinstance(object, (frozenset, slice)) else None


def told(x, object):
    return x + 1, str(object) if isinstance(object, (frozenset, slice)) else None


def looked_for(x, object):
    return x + 1, object in {1: 2} if isinstance(object, frozenset) else None


def put_in_order(x, object):
    return x + 1, len(sorted([object, object])) if isinstance(object, (frozenset, slice)) else None


def compared(x, object):
    return x + 1, object == copy.copy(object)


def deeply_copied(x, object):
    return x + 1, copy.deepcopy(object)


def given_to_torch(x, object):
    return torch.stack([x, object]), None


def given_as_data(x, object):
    return x + torch.tensor(object) if isinstance(object, (frozenset, slice)) else x, None


def given_for_a_place(x, object):
    return x[object] if isinstance(object, (frozenset, slice)) else x, None


FUNCTIONS = [
    given,
    measured,
    used_as_key,
    hashed,
    told,
    looked_for,
    put_in_order,
    compared,
    deeply_copied,
    given_to_torch,
    given_as_data,
    given_for_a_place,
]


def outcome(function, x, object, within):
    try:
        value, kept = function(x, object)
    except RecursionError as error:
        # In which of two functions that call one another the stack ends, CPython says by its words.
        return type(error), str(error).startswith("maximum recursion depth exceeded")
    except Exception as error:
        return type(error), str(error)
    return value.tolist(), depth(kept, within) if type(kept) is type(object) else kept


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_arguments(function, kind):
    _, within = HOLDERS[kind]
    captured, object = oxytorch.compile(function), nested(kind)
    for _ in range(3):
        assert outcome(captured, torch.ones(2), object, within) == outcome(function, torch.ones(2), object, within)


@pytest.mark.parametrize("kind", HOLDERS)
def test_results(kind):
    hold, within = HOLDERS[kind]

    def build(x, n):
        object = ()
        for _ in range(n):
            object = hold(object)
        return x + 1, object

    captured = oxytorch.compile(build)
    for n in (deep(kind), deep(kind)):
        value, object = captured(torch.ones(2), n)
        assert value.tolist() == [2, 2] and depth(object, within) == n


@pytest.mark.parametrize("kind", ["itself", "twice"])
def test_lists_that_come_back(kind):
    items = [torch.ones(2)]
    if kind == "itself":
        items.append(items)
    else:
        for _ in range(40):
            items = [items, items]
    captured = oxytorch.compile(lambda x, items: x + len(items))
    for _ in range(3):
        assert captured(torch.ones(2), items).tolist() == [3, 3]
