"""Low-rank adapters by peft: one graph, adapters that are scaled and swapped while running."""

import compare
import oxytorch
import peft
import pytest
import torch
import zoo


@pytest.fixture(scope="module")
def adapted():
    torch.manual_seed(0)
    workload = zoo.build("llama", sizes=zoo.TEST_SIZES)
    config = lambda rank: peft.LoraConfig(r=rank, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, init_lora_weights=False)
    model = peft.get_peft_model(workload.model, config(4)).train()
    model.add_adapter("other", config(4))
    return model, oxytorch._oxytorch.capture(model.forward), workload.args


def same(adapted):
    """A step of the compiled model beside one of eager; the names of the parameters that have a gradient."""
    model, called, args = adapted
    steps = []
    for forward in (called, model):
        model.zero_grad()
        out = zoo.main_output(forward(*args))
        out.square().mean().backward()
        steps.append((out.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}))
    (got, ours), (want, theirs) = steps
    assert ours.keys() == theirs.keys()
    for name, mine, eagers in [("output", got, want), *((name, ours[name], theirs[name]) for name in theirs)]:
        problem = compare.closeness(mine, eagers)
        assert problem is None or (mine - eagers).norm() <= 1e-5 * eagers.norm(), f"{name}: {problem}"
    return ours.keys()


def scale_by(model, adapter, factor):
    for module in model.modules():
        if hasattr(module, "set_scale"):
            module.set_scale(adapter, factor)


def test_one_graph_in_which_adapters_alone_are_trained(adapted):
    names = same(adapted)
    assert names and all("lora_" in name and ".default." in name for name in names)
    assert adapted[1].stats()["breaks"] == [] and adapted[1].stats()["segments"] == 1


def test_scales_trace_once_more_at_most(adapted):
    model, called, _ = adapted
    same(adapted)
    before = called.stats()["traced"]
    for factor in (0.5, 2.0, 0.25, 3.0):
        scale_by(model, "default", factor)
        same(adapted)
    scale_by(model, "default", 1.0)
    assert called.stats()["traced"] <= before + 1, called.stats()


def test_adapters_that_are_swapped_are_traced_once_each(adapted):
    model, called, _ = adapted
    for name in ("default", "other"):
        model.set_adapter(name)
        assert all(f".{name}." in parameter for parameter in same(adapted))
    before = called.stats()["traced"]
    for name in ("default", "other", "default", "other", "default"):
        model.set_adapter(name)
        same(adapted)
    assert called.stats()["traced"] == before, called.stats()
