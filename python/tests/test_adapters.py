"""Fine-tuning with low-rank adapters written by hand: a frozen base, adapters that are trained, swapped and scaled while running."""

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F


class Adapted(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.adapters = nn.ModuleDict()
        self.rank, self.active, self.scale = rank, None, 1.0

    def add(self, name):
        pair = nn.Module()
        pair.down = nn.Parameter(torch.randn(self.rank, self.base.in_features) / 4)
        pair.up = nn.Parameter(torch.randn(self.base.out_features, self.rank) / 4)
        self.adapters[name] = pair
        self.active = name

    def forward(self, x):
        y = self.base(x)
        if self.active is None:
            return y
        pair = self.adapters[self.active]
        return y + (x @ pair.down.t() @ pair.up.t()) * self.scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Adapted(nn.Linear(8, 16)), Adapted(nn.Linear(16, 4))
        for layer in self.layers():
            layer.add("first")

    def layers(self):
        return self.first, self.second

    def forward(self, x):
        return self.second(F.gelu(self.first(x)))


def step(model, called, x):
    model.zero_grad()
    out = called(x)
    out.square().sum().backward()
    return out.detach(), {name: p.grad for name, p in model.named_parameters()}


def same(model, called, x):
    got, want = step(model, called, x), step(model, model, x)
    compare.assert_same(got, want)
    return want[1]


@pytest.fixture
def compiled():
    torch.manual_seed(0)
    model = Model()
    captured = oxytorch._oxytorch.capture(model.forward)
    return model, captured


def test_only_adapters_have_gradients(compiled):
    model, called = compiled
    grads = same(model, called, torch.randn(3, 8))
    assert {name for name, grad in grads.items() if grad is not None} == {name for name in grads if "adapters" in name}


def test_weights_of_an_adapter_are_swapped_without_a_trace(compiled):
    model, called = compiled
    x = torch.randn(3, 8)
    same(model, called, x)
    before = called.stats()["traced"]
    for _ in range(3):
        for layer in model.layers():
            pair = layer.adapters["first"]
            pair.down, pair.up = nn.Parameter(torch.randn_like(pair.down) / 4), nn.Parameter(torch.randn_like(pair.up) / 4)
        same(model, called, x)
    assert called.stats()["traced"] == before


def test_an_adapter_is_loaded_without_a_trace(compiled):
    model, called = compiled
    x = torch.randn(3, 8)
    same(model, called, x)
    before = called.stats()["traced"]
    model.load_state_dict({name: torch.randn_like(value) / 4 for name, value in model.state_dict().items()})
    same(model, called, x)
    assert called.stats()["traced"] == before


def test_scaling_traces_once_more_at_most(compiled):
    model, called = compiled
    x = torch.randn(3, 8)
    same(model, called, x)
    before = called.stats()["traced"]
    for scale in (0.5, 0.25, 2.0, 0.125, 3.0, 0.7):
        for layer in model.layers():
            layer.scale = scale
        same(model, called, x)
    assert called.stats()["traced"] <= before + 1, called.stats()


def test_another_adapter_is_traced_once(compiled):
    model, called = compiled
    x = torch.randn(3, 8)
    same(model, called, x)
    for layer in model.layers():
        layer.add("second")
    same(model, called, x)
    before = called.stats()["traced"]
    for name in ("first", "second", "first", None, "second", None):
        for layer in model.layers():
            layer.active = name
        if name is None:
            with torch.no_grad():
                compare.assert_same(called(x), model(x))
        else:
            same(model, called, x)
    # With none, there is nothing to add: one more.
    assert called.stats()["traced"] <= before + 1, called.stats()


def test_training_an_adapter(compiled):
    model, called = compiled
    x, target = torch.randn(6, 8), torch.randn(6, 4)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    runs = []
    for forward in (called, model):
        model.load_state_dict(start)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        losses = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.mse_loss(forward(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        runs.append(torch.stack(losses))
    compare.assert_same(runs[0], runs[1])
    assert runs[0][-1] < runs[0][0]
