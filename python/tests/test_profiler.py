"""torch's profiler shows our kernels by the operations that are in them."""

import compare
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


def test_a_range_in_which_the_recording_ends():
    """Sparse tensors are left to Python, up to the end of the call: ranges that began before end, too."""

    def add(x, sparse, inner):
        with torch.autograd.profiler.record_function("ours"):
            y = x * 2 + sparse
            with inner:
                y = y * 2
        return y

    fast, x, sparse = oxytorch.compile(add), torch.ones(3), torch.ones(3).to_sparse()
    for _ in range(3):
        assert fast(x, sparse, torch.autograd.profiler.record_function("inner")).tolist() == [6, 6, 6]
    with profile(activities=[ProfilerActivity.CPU]) as found:
        fast(x, sparse, torch.autograd.profiler.record_function("inner"))
    assert {"ours", "inner"} <= {event.key for event in found.key_averages()}


def test_an_optimizer_of_sparse_gradients():
    found = []
    for wrap in (oxytorch.compile, lambda function: function):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(7, 4, sparse=True), torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(places):
            optimizer.zero_grad()
            model(places).square().sum().backward()
            optimizer.step()

        called = wrap(step)
        for _ in range(3):
            called(torch.tensor([1, 4, 1]))
        found.append([p.detach() for p in model.parameters()])
    compare.assert_same(*found)
