"""torch's profiler shows our kernels by the operations that are in them."""

import oxytorch
import torch
from torch.profiler import ProfilerActivity, profile


def test_kernels_are_ranges():
    fast = oxytorch.compile(lambda x: torch.sin(x) * 2 + 1)
    x = torch.randn(64, 64)
    for _ in range(4):
        fast(x)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(3):
            fast(x)
    own = [event for event in found.key_averages() if event.key.startswith("oxytorch::")]
    assert [event.count for event in own] == [3], [event.key for event in found.key_averages()]
    assert "sin" in own[0].key


def test_recorded_graphs_are_ranges(monkeypatch):
    monkeypatch.setenv("OXYTORCH_EMULATE_GRAPHS", "1")
    fast = oxytorch.compile(lambda x: torch.cos(x) * 2 + 1, mode="reduce-overhead")
    for _ in range(8):
        fast(torch.randn(64, 64))
    with profile(activities=[ProfilerActivity.CPU]) as found:
        fast(torch.randn(64, 64))
    assert "oxytorch::recorded graph" in [event.key for event in found.key_averages()]
