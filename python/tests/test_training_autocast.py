"""Training under autocast, around a step and inside of it."""

import compare
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from training import DOORS, Net, Norms

both = pytest.mark.parametrize("door", DOORS)


def gradients_under_autocast(model, called, t, dtype, scaler=None):
    model.zero_grad()
    with torch.autocast("cpu", dtype=dtype):
        out = called(t)
        loss = F.mse_loss(out.float(), torch.zeros_like(out, dtype=torch.float32))
    (scaler.scale(loss) if scaler else loss).backward()
    return out.detach(), [p.grad for p in model.parameters() if p.grad is not None]


@both
@pytest.mark.parametrize("kind", [Net, Norms])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_around_a_step_179804(door, kind, dtype):
    model, plain = kind(), kind()
    plain.load_state_dict(model.state_dict())
    called = DOORS[door](model)
    t = torch.randn(4, 8) if kind is Net else torch.randn(2, 3, 6, 6)
    for _ in range(2):
        got, want = gradients_under_autocast(model, called, t, dtype), gradients_under_autocast(plain, plain, t, dtype)
        assert got[0].dtype == want[0].dtype == dtype
        for ours, theirs in zip(got[1], want[1]):
            assert ours.dtype == theirs.dtype
            torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2 * theirs.abs().max().item() + 1e-6)
    # Without it again: what autocast did must not stay.
    compare.assert_same(called(t).detach(), plain(t).detach())
    assert called(t).dtype == torch.float32


@both
def test_autocast_inside_of_a_step(door):
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, t):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = self.net(t)
                with torch.autocast("cpu", enabled=False):
                    other = self.net(t)
            return hidden.float() + other * 2

    model, plain = Inside(), Inside()
    plain.load_state_dict(model.state_dict())
    called = DOORS[door](model)
    t = torch.randn(4, 8)
    for _ in range(3):
        outs = []
        for this, call in ((model, called), (plain, plain)):
            this.zero_grad()
            outs.append(call(t))
            outs[-1].sum().backward()
        torch.testing.assert_close(outs[0], outs[1], rtol=2e-2, atol=2e-2)
        for ours, theirs in zip(model.parameters(), plain.parameters()):
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=2e-2, atol=2e-2 * theirs.grad.abs().max().item())
        assert not torch.is_autocast_enabled("cpu")


@both
def test_a_gradient_scaler(door):
    model, plain = Net(), Net()
    plain.load_state_dict(model.state_dict())
    called = DOORS[door](model)
    runs = [(this, call, torch.optim.SGD(this.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=64.0)) for this, call in ((model, called), (plain, plain))]
    for step in range(4):
        t = torch.randn(4, 8)
        if step == 2:
            t[0, 0] = float("inf")  # the step is left out and the scale halved
        for this, call, optimizer, scaler in runs:
            gradients_under_autocast(this, call, t, torch.bfloat16, scaler)
            scaler.step(optimizer)
            scaler.update()
    assert runs[0][3].get_scale() == runs[1][3].get_scale() == 32.0
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-3)
