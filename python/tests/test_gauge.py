"""Tensors with variable sizes are looked at all at once, in torch's own memory. Each case changes one of many in one way: what fits is served by
the same trace, what does not is traced anew, and every result is eager's."""

import collections

import oxytorch
import pytest
import torch
from compare import assert_same

COUNT = 12


def total(tensors):
    return sum((t.float().sum() * t.shape[-1] for t in tensors), torch.zeros(()))


def plain(shift=0):
    return [torch.arange(float((2 + shift) * (30 + n))).reshape(2 + shift, 30 + n) for n in range(COUNT)]


def replaced(tensor):
    """One of them is this, all others are as they were."""
    tensors = plain()
    tensors[COUNT // 2] = tensor
    return tensors


def turned():
    return torch.arange(72.0).reshape(36, 2).t()


FITS = {
    "the same": plain,
    "other rows": lambda: plain(3),
    "other columns": lambda: replaced(torch.ones(2, 77)),
    "one row": lambda: [t[:1] for t in plain()],
}
OTHERS = {
    "another type": lambda: replaced(torch.ones(2, 36, dtype=torch.float64)),
    "another type of the same width": lambda: replaced(torch.ones(2, 36, dtype=torch.int32)),
    "another rank": lambda: replaced(torch.ones(2, 3, 12)),
    "more dimensions than a body has room for": lambda: replaced(torch.ones(1, 1, 2, 3, 2, 6)),
    "other strides": lambda: replaced(turned()),
    "requires grad": lambda: replaced(torch.ones(2, 36, requires_grad=True)),
    "a parameter": lambda: replaced(torch.nn.Parameter(torch.ones(2, 36))),
    "a sparse one": lambda: replaced(torch.ones(2, 36).to_sparse()),
    "rows that are not those of the others": lambda: replaced(torch.ones(5, 36)),
    "one less": lambda: plain()[:-1],
    "one more": lambda: plain() + [torch.ones(2, 3)],
    "a tuple": lambda: tuple(plain()),
    "nothing of it": lambda: [],
}


def compiled():
    captured = oxytorch.compile(total, dynamic=True)
    for shift in (0, 1, 0, 2):
        given = plain(shift)
        assert_same(captured(given), total(given))
    assert captured.stats()["traced"] == 1
    return captured


@pytest.mark.parametrize("make", FITS.values(), ids=FITS)
def test_what_fits(make):
    captured = compiled()
    for _ in range(3):
        assert_same(captured(make()), total(make()))
    assert captured.stats()["traced"] == 1


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_what_does_not(make):
    captured = compiled()
    for _ in range(3):
        assert_same(captured(make()).detach(), total(make()).detach())
    assert captured.stats()["traced"] > 1
    assert_same(captured(plain(1)), total(plain(1)))


def test_tensors_in_many_places():
    class Held:
        def __init__(self, n):
            self.tensor = torch.full((n, 3), 2.0)

    def f(first, *rest, held, table):
        return first.sum() + rest[1].sum() + held.tensor.sum() + table["a"].sum() + table["b"][0].sum()

    def arguments(n):
        table = {"a": torch.ones(n, 2), "b": (torch.ones(n + 1), None)}
        return (torch.ones(n, n + 4), 1, torch.ones(n * 2)), dict(held=Held(n), table=table)

    captured = oxytorch.compile(f, dynamic=True)
    for n in (5, 4, 9, 1, 7):
        args, kwargs = arguments(n)
        assert_same(captured(*args, **kwargs), f(*args, **kwargs))
    assert captured.stats()["traced"] == 1


def test_facts_are_kept():
    def f(tensors):
        a, b, c = (t.shape[0] for t in tensors)
        if a * b // 2 > c and a % 3 == 0:
            return tensors[0].sum() + 1
        return tensors[0].sum() - max(b, c)

    captured = oxytorch.compile(f, dynamic=True)
    for sizes in ((6, 5, 7), (9, 4, 3), (5, 4, 3), (6, 2, 7), (6, 7, 20), (12, 5, 7), (6, 2, 3), (2, 9, 30)):
        tensors = [torch.ones(n) for n in sizes]
        assert_same(captured(tensors), f(tensors))


def test_a_list_that_another_call_changes():
    given = plain()
    captured = compiled()
    assert_same(captured(given), total(given))
    given[3] = given[3].double()
    assert_same(captured(given), total(given))
    given.pop()
    assert_same(captured(given), total(given))


@torch._dynamo.disable
def swap(tensors):
    tensors[0] = torch.zeros(tensors[0].shape)


def taken_out(tensors):
    x = tensors.pop(0)
    print(end="")
    return x * x.shape[0]


def put_in_its_place(tensors):
    x = tensors[0]
    swap(tensors)
    return x * 2


@pytest.mark.parametrize("function", [taken_out, put_in_its_place])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_list_that_changes_behind_the_read(function, requires_grad):
    """The tensor is the one that was read, not the one that has come into its place."""
    captured = oxytorch.compile(function, dynamic=True)
    for n in (3, 4, 5, 6):
        make = lambda: [torch.ones(n, requires_grad=requires_grad), torch.ones(9)]
        assert_same(captured(make()), function(make()))
        assert captured(make()).requires_grad == requires_grad
    assert captured.stats()["traced"] == 1


def test_a_deque():
    captured = oxytorch.compile(lambda row: row[0] * 2, dynamic=True)
    for n in (3, 4, 5, 6):
        assert_same(captured(collections.deque([torch.ones(n)])), torch.ones(n) * 2)
    assert captured.stats()["traced"] == 1
