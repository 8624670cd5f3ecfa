"""Random numbers in functions that have clauses for exceptions: eager's, drawn once."""

import oxytorch
import pytest
import torch
from failing import GOOD, TABLE, outcome, same


@torch.no_grad()
def test_random_numbers_are_not_drawn_twice():
    def f(at, log):
        try:
            y = torch.rand(2, 3) + TABLE[at]
        except IndexError:
            y = torch.rand(2, 3)
        return y

    compiled = oxytorch.compile(f, options={"fallback_random": True})
    for at in (GOOD, GOOD):
        torch.manual_seed(3)
        got = outcome(compiled, at), torch.rand(1)
        torch.manual_seed(3)
        assert same(got, (outcome(f, at), torch.rand(1)))


DRAWS = {
    "bernoulli": lambda p: torch.bernoulli(p),
    "bernoulli_": lambda p: torch.zeros(4).bernoulli_(p),
    "multinomial": lambda p: torch.multinomial(p, 1),
    "normal": lambda p: torch.normal(0.0, p),
    "poisson": lambda p: torch.poisson(p),
}


@pytest.mark.parametrize("name", DRAWS)
@torch.no_grad()
def test_draws_that_fail(name):
    def f(t, i):
        try:
            return DRAWS[name](t + i).shape
        except RuntimeError as error:
            return str(error)

    compiled = oxytorch.compile(f)
    for i in (-2.0, 0.0, -2.0, 0.25):
        got, want = (g(torch.full((4,), 0.5), torch.tensor(i)) for g in (compiled, f))
        assert got == want


def draw_after_a_draw(t):
    first = torch.rand(4)
    try:
        second = torch.bernoulli(t)
    except RuntimeError:
        second = torch.rand(4)
    return first, second


@torch.no_grad()
def test_draws_in_clauses_are_drawn_once():
    compiled = oxytorch.compile(draw_after_a_draw, options={"fallback_random": True})
    found = []
    for function in (compiled, draw_after_a_draw, compiled):
        torch.manual_seed(5)
        found.append((function(torch.full((4,), 0.5)), torch.rand(1)))
    assert same(found[0], found[1]) and same(found[2], found[1])
