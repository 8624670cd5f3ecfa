"""Writes to tensors whose elements share their places: torch refuses most of them, at the line that writes."""

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from capturing import outcome
from compare import assert_same

WRITES = {
    "pointwise": lambda e: e.sin_(),
    "with a number": lambda e: e.add_(1),
    "a copy": lambda e: e.copy_(torch.ones(4)),
    "all by an index": lambda e: e.__setitem__(slice(None), 1),
    "out": lambda e: torch.add(e, 1, out=e),
    "random": lambda e: e.normal_(),
    "behind another view": lambda e: e.unsqueeze(0)[0].clamp_(0),
    "by a flag": lambda e: F.relu(e, inplace=True),
    "by a flag in its place": lambda e: F.leaky_relu(e, 0.1, True),
    "by a module": lambda e: torch.nn.SiLU(inplace=True)(e),
    "several": lambda e: torch._foreach_add_([e], 1.0),
    "one of two outs": lambda e: torch.max(torch.ones(2, 3, 4), 0, out=(e, torch.zeros(3, 4, dtype=torch.long))),
    "allowed: one row": lambda e: e.__setitem__(0, 1),
    "allowed: filled": lambda e: e.fill_(0.5),
    "allowed: zeros": lambda e: e.zero_(),
    "allowed: another shape": lambda e: e.t_(),
}


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("how", WRITES)
def test_effects_behind_a_refused_write_are_not_done(how, grad):
    def f(t, seen):
        shown = (t * 2).expand(3, 4)
        seen.append("before")
        try:
            WRITES[how](shown)
        finally:
            seen.append("finally")
        seen.append("behind")
        return shown + 1

    captured = oxytorch.compile(f)
    for seed in range(3):
        results = []
        for each in (captured, f):
            seen, t = [], torch.randn(4, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)
            result, error = outcome(each, t, seen)
            passed = outcome(result.sum().backward)[1] if result is not None and result.requires_grad else None
            results.append((None if result is None else result.detach(), str(error), seen, str(passed), t.grad))
        assert_same(*results)


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_is_expanded_is_a_view_to_autograd(dynamic):
    """Behind a break, and in the caller's hands."""

    def f(t):
        shown = (t * 2).expand(3, 4)
        shown[0] = shown.sum().item()
        return (t * 3).expand(2, 4), shown + 1

    def gradient(each, t):
        shown, result = each(t)
        shown[0] = 5
        (shown.sum() + result.sum()).backward()
        return t.grad, shown.detach(), result.detach()

    captured = oxytorch.compile(f, dynamic=dynamic)
    for _ in range(2):
        assert_same(*(gradient(each, torch.arange(1.0, 5.0).requires_grad_()) for each in (captured, f)))


def test_a_loop_ends_at_a_refused_write():
    def f(t):
        while True:
            t.add_(1)
            t = t[0].expand(2, *t.shape)

    captured = oxytorch.compile(f)
    for _ in range(2):
        assert outcome(captured, torch.ones(3, 4)) == outcome(f, torch.ones(3, 4))


def test_an_allowed_write_to_what_is_expanded_is_torchs_and_no_break():
    def f(t):
        t.expand(3, 4)[0] = 1
        return t + 1

    captured = oxytorch.compile(f, fullgraph=True)
    for _ in range(2):
        ours, theirs = torch.zeros(4), torch.zeros(4)
        assert_same((captured(ours), ours), (f(theirs), theirs))
    assert captured.show().count("run a graph on (") == 2 and not captured.stats()["breaks"]


# What is written is a part of what is read, or the other way round. Eager refuses those that fill their memory without gaps.
PARTS = {
    "shifted": lambda y: y[1:].add_(y[:-1]),
    "shifted back": lambda y: y[:-1].mul_(y[1:]),
    "by a part of as many": lambda y: y[2:].copy_(y[1:3]),
    "of the whole": lambda y: y.view(-1)[:4].add_(y.view(-1)[2:6]),
    "copied": lambda y: y[1:].copy_(y[:-1]),
    "by an index": lambda y: y.__setitem__(slice(1, None), y[:-1]),
    "out": lambda y: torch.add(y[:-1], 1, out=y[1:]),
    "turned": lambda y: y.view(-1)[:9].view(3, 3).add_(y.view(-1)[:9].view(3, 3).t()),
    "several": lambda y: torch._foreach_add_([y[1:]], [y[:-1]]),
    "allowed: the same": lambda y: y[1:].add_(y[1:]),
    "allowed: apart": lambda y: y[2:].add_(y[:2]),
    "allowed: one of the others": lambda y: y.__setitem__(0, y[1]),
    "allowed: between them": lambda y: y.view(-1)[::2].add_(y.view(-1)[1::2]),
    "allowed: other columns": lambda y: y[:, :2].mul_(y[:, 2:]),
    "allowed: a copy": lambda y: y[1:].add_(y[:-1].clone()),
}


@pytest.mark.parametrize("is_ours", [False, True], ids=["argument", "made"])
@pytest.mark.parametrize("how", PARTS)
def test_a_write_to_a_part_of_what_is_read(how, is_ours):
    def f(t, seen):
        y = t * 2 if is_ours else t
        y.mul_(2)
        seen.append("before")
        try:
            PARTS[how](y)
        except RuntimeError as error:
            seen.append(str(error)[:40])
        y.add_(1)
        PARTS[how](y)
        seen.append("behind")
        return y + 1

    captured = oxytorch.compile(f)
    for seed in range(3):
        results = []
        for each in (captured, f):
            seen, t = [], torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
            result, error = outcome(each, t, seen)
            results.append((result, str(error), seen, t))
        assert_same(*results)
        assert (results[0][0] is None) == (not how.startswith("allowed"))
    if how.startswith("allowed"):
        assert captured.show().count("run a graph on (") == 1
