"""Stores and calls that fail change nothing: a later call does not do them behind the clause that kept the exception. What was written
before is written."""

import collections

import oxytorch
import pytest
import torch
import torch.nn.functional as F


class Slots:
    __slots__ = ("a",)


class Fixed:
    @property
    def a(self):
        return 1


Pair = collections.namedtuple("Pair", "a b")


def attribute(held):
    held["none"].a = 1


def attribute_by_function(held):
    setattr(held["number"], "a", 1)


def no_slot(held):
    held["slots"].b = 1


def empty_slot(held):
    del held["slots"].a


def property_without_setter(held):
    held["fixed"].a = 2


def field_of_a_tuple(held):
    held["pair"].a = 2


def no_attribute(held):
    del held["object"].a


def item(held):
    held["list"][7] = 1


def no_item(held):
    del held["list"][7]


def no_key(held):
    del held["dict"]["a"]


def unhashable(held):
    held["dict"][[]] = 1


def removed(held):
    held["list"].remove(77)


def popped(held):
    held["list"].pop(9)


def inserted(held):
    held["list"].insert("a", 1)


def added(held):
    held["set"].add([])


def tensor_attribute(held):
    held["tensor"].shape = 1


FAILING = [attribute, attribute_by_function, no_slot, empty_slot, property_without_setter, field_of_a_tuple, no_attribute]
FAILING += [item, no_item, no_key, unhashable, removed, popped, inserted, added, tensor_attribute]


def held():
    holder = type("Object", (), {})
    return {
        "none": None,
        "number": 3,
        "slots": Slots(),
        "fixed": Fixed(),
        "pair": Pair(1, 2),
        "object": holder(),
        "list": [1],
        "dict": {},
        "set": set(),
        "tensor": torch.ones(1),
    }


@pytest.mark.parametrize("fail", FAILING, ids=lambda fail: fail.__name__)
@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "raised"])
def test_what_fails_is_not_done_later(fail, is_kept):
    def function(x, held, log):
        log.append("before")
        try:
            fail(held)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            log.append(type(error).__name__)
            if not is_kept:
                log.append("raised")
                raise
        log.append("behind")
        return x * 2

    def run(function):
        log = []
        try:
            return function(torch.ones(2), held(), log).tolist(), log
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            return type(error), str(error), log

    compiled = oxytorch.compile(function)
    for _ in range(4):
        assert run(compiled) == run(function)


def stores_some(x, into):
    """The second of them fails."""
    try:
        into.update([("a", 1), ([], 2), ("b", 3)])
    except TypeError:
        x = x + 1
    return x


def test_what_was_done_before_it_failed_is_done_later():
    compiled = oxytorch.compile(stores_some)
    for _ in range(4):
        ours, theirs = {}, {}
        assert compiled(torch.ones(1), ours).item() == stores_some(torch.ones(1), theirs).item()
        assert ours == theirs


def scaled_beside(x, c):
    x.add_(1)
    scaled = c.clone()
    scaled.mul_(2)
    return scaled.max()


def scaled_itself(x, c):
    x.add_(1)
    c.mul_(2)
    return c.max()


def padded(x, c):
    x.add_(1)
    return F.pad(c, (1, 1)).max()


@pytest.mark.parametrize("function", [scaled_beside, scaled_itself, padded])
@torch.no_grad()
def test_what_torch_refuses_behind_a_write_of_what_the_graph_made_is_refused_by_eager(function):
    """A call that writes copies of ours can be made again: eager does the whole call, with its writes and its words."""
    compiled = oxytorch.compile(function)
    for _ in range(3):
        found = []
        for f in function, compiled:
            x, c = torch.zeros(2), torch.ones(2, dtype=torch.complex64)
            with pytest.raises(NotImplementedError) as error:
                f(x, c)
            found.append((str(error.value), x.tolist(), c.tolist()))
        assert found[0] == found[1]


BEHIND_WRITES = {
    "a complex number's part": lambda x, i: torch.complex(x, x).real[i],
    "complex numbers": lambda x, i: torch.complex(x, x)[i],
    "a spectrum": lambda x, i: torch.fft.fft(x)[i],
}


@pytest.mark.parametrize("take", BEHIND_WRITES.values(), ids=BEHIND_WRITES)
@torch.no_grad()
def test_writes_before_what_torch_refuses_are_done(take):
    def function(x, seen, i):
        seen.add_(1)
        return take(x, i)

    def run(f):
        seen, found = torch.zeros(1), []
        for place in (0, 9, 1):
            try:
                found.append(f(torch.ones(4), seen, torch.tensor([place])).tolist())
            except IndexError as error:
                found.append(str(error))
            found.append(seen.item())
        return found

    assert run(oxytorch.compile(function)) == run(function)
