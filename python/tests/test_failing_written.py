"""Operations whose values may fail them, on tensors that were written or that they write themselves: nothing is written twice."""

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from failing import TABLE, same, told


def remainder_into(i):
    j = i + 0
    torch.remainder(i, 4, out=j)
    return j


def shifted_view(i):
    j = i + 0
    v = j[:1]
    v >>= 3
    return j


def rest(i):
    i %= 4
    return i


def low_bits(i):
    i &= 3
    return i


def computed_and(write):
    def f(i):
        j = i + 0
        return write(j)

    return f


def set_first(i):
    i[0] = 2
    return i


def zero_a_view(i):
    i[:1].zero_()
    return i


def in_place_by_a_flag(i):
    F.hardtanh(i, 0, 3, True)
    return i


IN_PLACE = {
    "clamp_": lambda i: i.clamp_(max=3),
    "imod": rest,
    "iand": low_bits,
    "method": lambda i: i.__iand__(3),
    "setitem": set_first,
    "view": zero_a_view,
    "flag": in_place_by_a_flag,
}
WRITES = IN_PLACE | {f"computed {name}": computed_and(write) for name, write in IN_PLACE.items()}
WRITES |= {"out": remainder_into, "shifted view": shifted_view}


@pytest.mark.parametrize("name", WRITES)
@torch.no_grad()
def test_indices_that_are_still_to_be_written(name):
    def f(t, i):
        j = WRITES[name](i)
        try:
            return t[j], i
        except IndexError:
            return "caught", i

    compiled = oxytorch.compile(f)
    for first in (9, 0, 9):
        got, want = (g(torch.arange(4.0), torch.tensor([first, 0])) for g in (compiled, f))
        assert same(got, want), f"{got} instead of {want}"


@torch.no_grad()
def test_an_index_that_a_write_makes_bad():
    def f(t, i):
        i.add_(8)
        try:
            return t[i]
        except IndexError:
            return "caught"

    compiled = oxytorch.compile(f)
    for first in (1, -8, 1):
        got, want = (g(torch.arange(4.0), torch.tensor([first, -5])) for g in (compiled, f))
        assert same(got, want), f"{got} instead of {want}"


@torch.no_grad()
def test_a_matrix_that_is_still_to_be_written():
    def f(t):
        t.mul_(0).add_(torch.eye(2))
        try:
            return torch.linalg.cholesky(t)
        except RuntimeError:
            return "caught"

    assert same(oxytorch.compile(f)(-torch.eye(2)), torch.eye(2))


@torch.no_grad()
def test_what_is_written_by_out_is_not_tried():
    def f(t, i):
        o = torch.zeros(2)
        try:
            torch.index_select(t, 0, i, out=o)
        except IndexError:
            o.add_(7)
        return o

    compiled = oxytorch.compile(f)
    for first in (1, 9, 2, 9):
        got, want = (g(torch.arange(4.0), torch.tensor([0, first])) for g in (compiled, f))
        assert same(got, want), f"{got} instead of {want}"


def floor_divide(j, d):
    j //= d


def modulo(j, d):
    j %= d


DIVIDE = {
    "ifloordiv": floor_divide,
    "imod": modulo,
    "method": lambda j, d: j.__ifloordiv__(d),
    "remainder_": lambda j, d: j.remainder_(d),
    "div_": lambda j, d: j.div_(d, rounding_mode="floor"),
}


@pytest.mark.parametrize("name", DIVIDE)
@pytest.mark.parametrize("is_outside", [False, True], ids=["computed", "argument"])
@torch.no_grad()
def test_divisions_in_place(name, is_outside):
    def f(i, d, log):
        j = i if is_outside else i * 5
        told(log, "before")
        try:
            DIVIDE[name](j, d)
            told(log, "divided")
        except RuntimeError as error:
            told(log, str(error))
        return j + 1, i

    compiled = oxytorch.compile(f)
    for d in (0, 3, 0, 2):
        logs = [], []
        got, want = (g(torch.tensor([7, 9]), torch.tensor([d, d]), log) for g, log in zip((compiled, f), logs))
        assert same((got, logs[0]), (want, logs[1])), f"{got} {logs[0]} instead of {want} {logs[1]}"


@pytest.mark.parametrize("divide", [lambda j: j.remainder_(0), lambda j: j.__imod__(0), lambda j: torch.div(j, 0, rounding_mode="floor")])
@torch.no_grad()
def test_divisions_by_the_number_zero(divide):
    def f(i):
        try:
            return divide(i * 5)
        except RuntimeError as error:
            return str(error)

    assert same(oxytorch.compile(f)(torch.tensor([7])), f(torch.tensor([7])))


@torch.no_grad()
def test_statistics_are_not_updated_twice():
    def f(x, mean, variance):
        at = F.batch_norm(x, mean, variance, training=True).argmax(0)
        try:
            return TABLE[at]
        except IndexError:
            return "caught"

    x = torch.arange(6.0).reshape(3, 2).square()
    found = []
    for function in (oxytorch.compile(f), f):
        mean, variance = torch.zeros(2), torch.ones(2)
        found.append((function(x, mean, variance), mean))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1])


MASK = torch.tensor([True, False, True, True, False])


@pytest.mark.parametrize("name", ["masked_scatter", "masked_scatter_"])
@pytest.mark.parametrize("counts", [(2, 3, 2), (3, 2, 5), (2, 2)])
@torch.no_grad()
def test_a_mask_with_more_places_than_there_are_elements(name, counts):
    def f(x, mask, source, log):
        told(log, "before")
        y = x * 2
        try:
            y = getattr(y, name)(mask, source)
            told(log, "written")
        except RuntimeError as error:
            told(log, str(error))
        return x + 1 if len(log) == 2 and log[1] != "written" else y

    compiled = oxytorch.compile(f)
    for count in counts:
        logs = [], []
        got, want = (g(torch.arange(5.0), MASK, torch.ones(count), log) for g, log in zip((compiled, f), logs))
        assert same((got, logs[0]), (want, logs[1])), f"{got} {logs[0]} instead of {want} {logs[1]}"
