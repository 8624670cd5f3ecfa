"""What a function does to others is done again in later calls."""

import random

import torch
import torch.nn as nn
from capturing import x
from compare import assert_same
from oxytorch import _oxytorch


class Counter:
    def __init__(self):
        self.n, self.seen, self.last, self.table = 0, [], None, {}

    def step(self, t):
        self.n += 1
        self.seen.append(t.sum())
        self.last = t * 2
        self.table[self.n % 2] = t
        return self.last + self.n


def test_effects_are_replayed():
    a, b = Counter(), Counter()
    captured = _oxytorch.capture(a.step)
    for n in range(6):
        t = x()
        assert_same(captured(t), b.step(t))
        assert a.n == b.n == n + 1
        assert len(a.seen) == len(b.seen)
        assert_same(a.seen, b.seen)
        assert_same(a.last, b.last)
        assert_same(a.table, b.table)
        assert a.table[(n + 1) % 2] is t


LOG = []


def test_effects_on_globals_and_cells():
    total = 0

    def f(t):
        nonlocal total
        global FACTOR2
        total += 1
        FACTOR2 = total * 2
        LOG.append(total)
        return t + total

    captured = _oxytorch.capture(f)
    for n in range(4):
        t = x()
        assert_same(captured(t), t + n + 1)
        assert total == n + 1 and FACTOR2 == 2 * total and LOG == list(range(1, n + 2))


def test_a_count_that_is_added_to_a_list_is_no_other_trace():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.kept = 0, []

        def forward(self, t):
            self.calls += 1
            self.kept.append(self.calls)
            self.kept.append(t)
            return t + 1

    module = Counting()
    captured = _oxytorch.capture(module)
    given = [x() for _ in range(5)]
    for t in given:
        assert_same(captured(t), t + 1)
    assert module.kept[::2] == [1, 2, 3, 4, 5] and all(kept is t for kept, t in zip(module.kept[1::2], given, strict=True))
    assert captured.stats()["traced"] == 1, captured.show()


def test_a_count_that_is_added_to_a_list_is_read_there():
    class Owner:
        n, kept = 0, []

    owner = Owner()

    def step(t):
        owner.n += 1
        owner.kept.append(owner.n)
        owner.kept.append((owner.n, t.shape[0]))
        return t * owner.kept[-2] + owner.kept[1][0], owner.kept[0]

    captured = _oxytorch.capture(step)
    for n in range(1, 9):
        owner.kept.clear()
        t = x()
        assert_same(captured(t), (t * n + n, n))
        assert owner.kept == [n, (n, t.shape[0])]
    assert captured.stats()["traced"] <= 3, captured.show()


def test_append_takes_one_argument_and_no_names():
    kept = []

    def step(t):
        told = []
        for names in ({}, {"x": 2}):
            for given in ((), (1,), (1, 2)):
                if given != (1,) or names:
                    try:
                        kept.append(*given, **names)
                    except TypeError as error:
                        told.append(str(error))
        return t + len(kept), told

    t = x()
    expected = step(t)
    captured = _oxytorch.capture(step)
    for _ in range(3):
        assert_same(captured(t), expected)
    assert kept == []


def test_buffers_are_written():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("steps", torch.tensor(0))

        def forward(self, t):
            self.mean.mul_(0.9).add_(t.mean(0), alpha=0.1)
            self.steps += 1
            return t - self.mean

    a, b = Running(), Running()
    captured = _oxytorch.capture(a)
    for _ in range(3):
        t = x()
        with torch.no_grad():
            assert_same(captured(t), b(t))
        assert_same(a.mean, b.mean)
        assert_same(a.steps, b.steps)


def test_functions_of_random_are_called_as_a_whole():
    """One break each, whatever they draw, and what they draw is drawn once."""

    class Loaded(random.Random):
        def random(self):
            return 0.5

    own = Loaded(3)

    def f(t, parts):
        order = random.sample(range(1000), 40)
        random.shuffle(parts)
        chosen = random.choice(parts)
        return t * sum(order) + random.randint(0, 99) + chosen, parts[0], own.uniform(2, 4), own.choices("abc", k=2)

    captured = _oxytorch.capture(f)
    for seed in range(6):
        found = []
        for function in (captured, f):
            random.seed(seed)
            own.seed(seed)
            t, parts = torch.ones(3), [torch.full((3,), float(n)) for n in range(4)]
            results = function(t, parts)
            found.append((results, parts, random.random(), own.getrandbits(30)))
        assert_same(*found)
    assert captured.stats()["traced"] <= 4 and len(captured.stats()["breaks"]) <= 6 * captured.stats()["traced"]
