"""Functions without breaks: arguments, closures, containers, views."""

import collections
import functools
import math
import operator

import pytest
import torch
from capturing import check, x
from compare import assert_same
from oxytorch import _oxytorch


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
