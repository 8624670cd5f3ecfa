"""Whole numbers among the arguments that change from call to call: the second one makes them variables, as sizes are."""

import pytest
import torch
import torch.nn.functional as F
from compare import assert_same
from oxytorch import _oxytorch


def check(function, numbers, compiles=2):
    captured = _oxytorch.capture(function)
    x = torch.tensor([0.3, -1.2, 2.0, -0.1])
    for number in numbers:
        assert_same(captured(x, number), function(x, number))
    assert captured.stats()["traced"] == compiles, captured.show()
    return captured


NUMBERS = (19, 18, 3, 7, 2, 12, 30)
TABLE = torch.linspace(0.1, 4.0, 64)


def indexed(x, t):
    return x * TABLE[t], TABLE[-t], TABLE[None, t]


def sliced(x, t):
    return TABLE[t : t + 4] + x, TABLE[:t].sum(), TABLE[t:]


def narrowed(x, t):
    return TABLE.narrow(0, t, 2), TABLE.roll(t) * 2


def shaped(x, t):
    return torch.zeros(t, 2), torch.ones(t).sum() + x, x.expand(t, 4) + 1, x.repeat(t)


def counted(x, t):
    return torch.arange(t), torch.arange(t, t + 3) * 2


def multiplied(x, t):
    return x * t, t - x, (x * 10).int() * t, (x * 10).long() // t, (x * 10).int() + t


def computed(x, t):
    return x + (t * 2 + 1), x * (t // 3), x * (t % 5), t * 2, -t, x.sum() + t


def filled(x, t):
    return torch.full((3,), t), torch.full((3,), t / 7), torch.full_like(x, t / 3), x.new_full((2,), t), x.clone().fill_(t / 2)


def limited(x, t):
    return x.clamp(t / 20, t), x.masked_fill(x > 0, t / 3), torch.where(x > 0, x, t / 3), torch.where(x > 0, t, 1)


def spaced(x, t):
    return torch.linspace(0, t, 5) * x[0], torch.linspace(t / 3, 1, 4, dtype=torch.float16), torch.linspace(t / 7, -t, 1)


def made(x, t):
    return torch.tensor([t, 1]), torch.tensor([t, 0.5])


def written(x, t):
    y = TABLE.clone()
    y[t] = 5.0
    y[t : t + 1] += x[0] * t
    return y


@pytest.mark.parametrize("function", [indexed, sliced, narrowed, shaped, counted, multiplied, computed, filled, limited, spaced, made, written])
def test_one_trace_for_all_numbers(function):
    check(function, NUMBERS)


def test_what_is_asked_of_a_number_is_a_branch():
    def step(x, t):
        noise = TABLE[t].sqrt() if t > 0 else 0.0
        return x * TABLE[t] + noise, torch.full((2,), float(t) / 50)

    check(step, range(20, -1, -1), compiles=3)


def test_a_number_below_zero():
    check(lambda x, t: (TABLE[t] * x, x * t, x + t // 2, x + t % 3), (-3, -4, -20, -7))


def test_beyond_the_end_is_eagers_error():
    function = lambda x, t: x * TABLE[t]
    captured = check(function, (3, 4, 5))
    with pytest.raises(IndexError):
        captured(torch.ones(4), 64)
    with pytest.raises(IndexError):
        captured(torch.ones(4), -65)
    assert_same(captured(torch.ones(4), 63), function(torch.ones(4), 63))


def test_no_int_is_no_such_number():
    function = lambda x, t: x * t
    check(function, (3, 4, 5, True, 2.5, 6, 1 << 40), compiles=5)


def test_the_value_itself_is_relied_on():
    def named(x, t):
        return x * 2, f"step {t}", {t: x.sum()}

    check(named, (1, 2, 3, 2), compiles=3)


def test_numbers_of_a_module():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            return x * TABLE[self.step]

    eager, module = Counting(), Counting()
    captured = _oxytorch.capture(module)
    for _ in range(8):
        assert_same(captured(torch.ones(4)), eager(torch.ones(4)))
    assert module.step == eager.step
    assert captured.stats()["traced"] <= 3, captured.show()


def test_gradients_through_an_index():
    def loss(w, t):
        return w[t] * t + (w * t / 3).sum() + F.relu(w[:t]).sum()

    captured = _oxytorch.capture(loss)
    for t in (3, 1, 2, 3):
        mine, theirs = (torch.tensor([0.3, -1.2, 2.0, -0.1], requires_grad=True) for _ in range(2))
        captured(mine, t).backward()
        loss(theirs, t).backward()
        assert_same(mine.grad, theirs.grad)


def test_dynamic_false_compiles_each_number():
    captured = _oxytorch.capture(lambda x, t: x * TABLE[t], dynamic=False)
    for t in (3, 4, 5):
        assert_same(captured(torch.ones(4), t), torch.ones(4) * TABLE[t])
    assert captured.stats()["traced"] == 3


def test_products_that_do_not_fit():
    function = lambda x, n: (x * n, (n * n * n * n) % 7, n * (1 << 40), x + n * n)
    captured = _oxytorch.capture(function)
    for n in (1, 2, 3, 1 << 20, 1 << 30, -(1 << 30), 5):
        assert_same(captured(torch.arange(2.0), n), function(torch.arange(2.0), n))


def test_numbers_beyond_64_bits():
    function = lambda x, n: x * n
    captured = _oxytorch.capture(function)
    for n in (3, 1 << 40, 1 << 63, 4):
        assert_same(captured(torch.arange(4.0), n), function(torch.arange(4.0), n))


def test_tensors_of_fractions():
    def function(x, t):
        return torch.tensor(t), torch.tensor(t, dtype=torch.float16) * x, torch.tensor(data=t * 2) + x, torch.scalar_tensor(t)

    check(function, (1.5, 2.5, -3.5, 7e4, float("inf")))


def test_a_fraction_that_is_no_whole_number():
    captured = _oxytorch.capture(lambda t: torch.tensor(t, dtype=torch.int32) + 1)
    for number in (1.5, 2.5, -3.5):
        assert_same(captured(number), torch.tensor(number, dtype=torch.int32) + 1)
    for number in (float("inf"), float("nan"), 1e10):
        with pytest.raises(Exception) as wanted:
            torch.tensor(number, dtype=torch.int32)
        with pytest.raises(type(wanted.value), match=str(wanted.value)):
            captured(number)
    assert captured.stats()["traced"] == 2
