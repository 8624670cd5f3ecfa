"""Random programs over sizes that vary, compared with eager at several sizes each.

    SEEDS=5000..5200 python -m pytest python/tests/test_random_shapes.py

A program is drawn step by step; a step is kept if eager takes it at all sizes. Compared are values, types, shapes, strides, what shares memory
with what, and what was written to the inputs, which lie row by row, turned or with gaps.
"""

import os
import random

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from compare import assert_same, copies

GRAPHS = 2000
PARTS = 20


def seeds():
    first, _, last = os.environ.get("SEEDS", f"0..{GRAPHS}").partition("..")
    return range(int(first), int(last))


# Each takes a random generator and a function that picks a tensor's place, and gives a step: a function of the tensors so far.
UNARY = [torch.relu, torch.sigmoid, torch.tanh, torch.neg, torch.abs, lambda x: x * 2 + 1, lambda x: (x > 0).float(), lambda x: x.round()]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, lambda x, y: torch.where(x > y, x, y), lambda x, y: x.masked_fill(y > 0, 0.5)]
REDUCE = [torch.sum, torch.mean, torch.amax, torch.amin, lambda x, d, k: x.logsumexp(d, k), lambda x, d, k: x.var(d, keepdim=k)]
ROWS = [torch.softmax, torch.cumsum, lambda x, d: x.flip(d), lambda x, d: x.roll(1, d), lambda x, d: x.sort(d)[0]]
SHAPED = [
    lambda x: x * x.shape[0],
    lambda x: x + torch.arange(x.shape[-1]),
    lambda x: x.reshape(x.shape[0], -1),
    lambda x: x.reshape(-1),
    lambda x: x.flatten(0, 1),
    lambda x: x.unsqueeze(0).expand(x.shape[-1], *x.shape),
    lambda x: x[1:],
    lambda x: x[..., : x.shape[-1] // 2],
    lambda x: x[..., -1],
    lambda x: x[::2],
    lambda x: x[torch.arange(x.shape[0]) // 2],
    lambda x: torch.full((x.shape[0],), 2.0) / x.numel(),
    lambda x: F.pad(x, (1, 2)),
    lambda x: torch.cat([x, x[..., :1]], -1),
    lambda x: torch.stack([x, x + 1]),
    lambda x: x.repeat(*[1] * (x.dim() - 1), 2),
    lambda x: x.tril() if x.dim() > 1 else x,
    lambda x: x @ x.transpose(-1, -2),
    lambda x: x.mT.contiguous(),
    lambda x: x.chunk(2, 0)[0],
    lambda x: F.avg_pool1d(x, 2),
    lambda x: x[:, ::2],
    lambda x: F.max_pool2d(x, 2),
    lambda x: F.batch_norm(x, None, None, training=True, eps=1.0),
    lambda x: F.group_norm(x, x.shape[1], eps=1.0),
    lambda x: x.to(memory_format=torch.channels_last),
    lambda x: x.contiguous(memory_format=torch.channels_last),
]
WRITES = [lambda x: x.add_(1), lambda x: x[..., :1].zero_(), lambda x: x.mul_(x.shape[0]), lambda x: x.copy_(x.flip(0))]
FORMS = [lambda x: x.contiguous(), lambda x: x.reshape(x.shape), lambda x: x.clone(), lambda x: x.view(-1), lambda x: x.view_as(x)]
LAYOUTS = [
    lambda x: x,
    lambda x: x.mT.contiguous().mT if x.dim() > 1 else x,
    lambda x: x.repeat_interleave(2, -1)[..., ::2],
    lambda x: x.to(memory_format=torch.channels_last) if x.dim() == 4 else x,
]


def step(rng, count):
    """A function of the tensors so far, whose choices are made."""
    pick = lambda: rng.choice([rng.randrange(count), count - 1])
    i, j, d, e, keep = pick(), pick(), rng.choice([0, 1, -1]), rng.choice([0, -1]), rng.random() < 0.5
    kind = rng.randrange(10)
    if kind == 0:
        f = rng.choice(UNARY)
        return lambda v: f(v[i])
    if kind in (1, 2):
        f = rng.choice(BINARY)
        return lambda v: f(v[i], v[j])
    if kind == 3:
        f = rng.choice(REDUCE)
        return lambda v: f(v[i], d, keep)
    if kind == 4:
        f = rng.choice(ROWS)
        return lambda v: f(v[i], d)
    if kind == 5:
        return lambda v: v[i].transpose(d, e)
    f = rng.choice(WRITES if kind == 8 else FORMS if kind == 9 else SHAPED)
    return lambda v: f(v[i])


def program(rng, inputs):
    """Steps that all of the inputs allow, and which tensors are returned."""
    values, steps = [copies(list(tensors)) for tensors in inputs], []
    for _ in range(40):
        if len(steps) == 6:
            break
        one = step(rng, len(values[0]))
        try:
            found = [one(tensors) for tensors in values]
        except (RuntimeError, IndexError, ValueError):
            continue
        if all(0 < x.numel() < 3000 and x.dim() < 5 and x.isfinite().all() and x.abs().max() < 1e4 for x in found):
            steps.append(one)
            [tensors.append(x) for tensors, x in zip(values, found)]
    count = len(values[0])
    returned = sorted({count - 1, rng.randrange(len(inputs[0]), count)}) if steps else [0]

    def function(*tensors):
        tensors = list(tensors)
        for one in steps:
            tensors.append(one(tensors))
        return [tensors[n] for n in returned]

    return function


def check(seed):
    """How often it was traced."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    shapes = [[rng.choice("aabbc3") for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 2))]
    layouts = [rng.choice(LAYOUTS) for _ in shapes]
    first = dict(zip("abc", rng.sample([2, 4, 5, 6, 7, 9], 3)))
    numbers = [sizes | {"3": 3} for sizes in (first, *({n: rng.randint(1, 9) for n in "abc"} for _ in range(2)))]
    inputs = [[layout(torch.randn(*(sizes[name] for name in shape))) for layout, shape in zip(layouts, shapes)] for sizes in numbers]
    function = program(rng, inputs)
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    with torch.no_grad():
        for tensors in inputs:
            label = f"seed {seed}, {[tuple(x.shape) for x in tensors]}"
            ours, eagers = copies(tensors), copies(tensors)
            got, want = captured(*ours), function(*eagers)
            exact = lambda: (lambda wide: [function(*wide), wide])([x.double() for x in copies(tensors)])
            assert_same([got, ours], [want, eagers], exact, label=label)
            assert sharing([*ours, *got]) == sharing([*eagers, *want]), label
    return captured.stats()["traced"]


def sharing(tensors):
    """For each pair, whether it is one object, and whether it shares memory."""
    return [(x is y, x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()) for x in tensors for y in tensors]


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part):
    traced = [check(seed) for seed in seeds()[part::PARTS]]
    # Sizes are variables: most programs are traced once for all three lists of sizes.
    assert sum(n == 1 for n in traced) >= len(traced) * 0.6, traced
