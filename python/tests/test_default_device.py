"""`torch.set_default_device` and `with torch.device(...)`: modes that say where tensors are made, and nothing else."""

import pytest
import torch
import torch.nn.functional as F
from compare import assert_same
from oxytorch import _oxytorch


@pytest.fixture
def default():
    yield torch.set_default_device
    torch.set_default_device(None)


def making(a):
    made = torch.ones(3) + torch.arange(3) + torch.tensor([1.0, 2.0, 3.0]) + torch.full((3,), 2.0)
    return a + made, torch.get_default_device(), torch.eye(2), torch.zeros_like(a), F.one_hot(torch.tensor([1]), 3)


def test_a_default_device_is_captured(default):
    captured = _oxytorch.capture(making, fullgraph=True)
    for device in (None, "cpu", "cpu", None, "cpu"):
        default(device)
        a = torch.randn(3)
        assert_same(captured(a), making(a))
    assert captured.stats()["traced"] == 2


def inside(a):
    with torch.device("cpu"):
        made, device = torch.ones(3), torch.get_default_device()
    return a + made, device


def test_a_device_for_a_while():
    captured = _oxytorch.capture(inside, fullgraph=True)
    for _ in range(3):
        a = torch.randn(3)
        assert_same(captured(a), inside(a))
    assert captured.stats()["traced"] == 1


def test_tensors_without_memory_are_made_where_the_program_says():
    def elsewhere(a):
        with torch.device("meta"):
            made = torch.zeros(3)
        return a + 1, made.device, torch.zeros(1).device

    captured = _oxytorch.capture(elsewhere)
    for _ in range(3):
        a = torch.randn(3)
        assert_same(captured(a), elsewhere(a))


def test_training_under_a_default_device(default):
    default("cpu")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))

    def step(a):
        net.zero_grad()
        loss = (net(a) * torch.ones(4)).square().sum()
        loss.backward()
        return loss.detach(), [p.grad.clone() for p in net.parameters()]

    captured = _oxytorch.capture(step)
    for _ in range(3):
        a = torch.randn(2, 4)
        assert_same(captured(a), step(a))
