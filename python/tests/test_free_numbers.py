"""Numbers that change from call to call, inside of lists and tuples that the function makes: whoever reads them has those of this call."""

import copy
import functools
import json
import math
import operator

import compare
import numpy
import oxytorch
import pytest
import torch
import torch.nn.functional as F

USES = {
    "read": lambda v, x: x * v[0] + v[1],
    "given back": lambda v, x: (x, v, [v, (v[0],)], {"k": [v[1]]}),
    "a tensor": lambda v, x: torch.tensor(v) + x.sum(),
    "an argument": lambda v, x: F.interpolate(x.view(1, 1, 2, 2), scale_factor=[1 + v[0], 1.0]),
    "bounds": lambda v, x: x.clamp(*v),
    "factors": lambda v, x: torch._foreach_mul([x, x + 1], list(v)),
    "an array": lambda v, x: x * float(numpy.array(v).sum()),
    "sum": lambda v, x: x * sum(v) + math.fsum(v) + math.prod(v),
    "extremes": lambda v, x: x * max(v) + min(v),
    "sorted": lambda v, x: x * sorted(v)[0],
    "equal": lambda v, x: x if list(v) == [0.15, 0.3] else x * 2,
    "contained": lambda v, x: x if 0.1 in v else x * 3,
    "compared": lambda v, x: x * (list(v) < [0.2, 0.3]),
    "text": lambda v, x: (x, str(v), f"{v} {v[0]:.3f}", json.dumps(v)),
    "found": lambda v, x: x * v.index(v[1]) + v.count(0.1),
    "hashed": lambda v, x: x * (hash(tuple(v)) % 7) + len(set(v) | {0.1}),
    "zipped": lambda v, x: (x * dict(zip("ab", v))["b"], dict(zip("ab", v)), list(zip(v, reversed(v)))),
    "copied": lambda v, x: (x * list(v)[0] + v[:][1] + copy.copy(v)[0], copy.deepcopy(v)),
    "spread": lambda v, x: (lambda a, *rest: (x * a, rest))(*v),
    "folded": lambda v, x: x * functools.reduce(operator.mul, v) + any(a > 0.2 for a in v) + all(v),
    "mapped": lambda v, x: [x * a for a in map(math.sqrt, v)],
    "chosen": lambda v, x: x * len([a for a in v if a > 0.2]),
    "joined": lambda v, x: x * (v + v)[2] + (v * 2)[3] + v[1:][0],
    "a slice": lambda v, x: x[: int(v[0] * 10)],
    "rounded": lambda v, x: x * round(v[0], 1) + isinstance(v[0], float),
}

CHANGES = {
    "append": lambda v, x: (v.append(v[0] * 2), x * v[-1], v)[1:],
    "insert": lambda v, x: (v.insert(0, 7.0), x * v[1], v)[1:],
    "extend": lambda v, x: (v.extend(v), x * v[3], v)[1:],
    "pop": lambda v, x: (x * v.pop(), v),
    "reverse": lambda v, x: (v.reverse(), x * v[0], v)[1:],
    "sort": lambda v, x: (v.sort(), x * v[0], v)[1:],
    "remove": lambda v, x: (v.remove(v[0]), x * v[0], v)[1:],
    "store": lambda v, x: (operator.setitem(v, 0, v[0] + 1), x * v[0], v)[1:],
}

MADE = {"list": lambda a, b: [a, b], "tuple": lambda a, b: (a, b), "comprehension": lambda a, b: [n for n in (a, b)]}


class State:
    pass


def follow(compiler, make, use):
    state, found = State(), []

    def f(x):
        values = make(state.rate, state.rate * 2)
        result = use(values, x * state.rate)
        state.last, state.pair = values, (state.rate, values)
        return result

    called = compiler(f)
    for n in range(5):
        state.rate = 0.1 + 0.05 * n
        found.append((called(torch.linspace(-1, 1, 4)), repr(state.last), repr(state.pair)))
    return found


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("use", USES)
def test_what_is_read(made, use):
    check(MADE[made], USES[use])


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed(change):
    check(MADE["list"], CHANGES[change])


def check(make, use):
    for (got, *others), (want, *expected) in zip(follow(oxytorch.compile, make, use), follow(lambda f: f, make, use), strict=True):
        compare.assert_same(got, want)
        assert others == expected
