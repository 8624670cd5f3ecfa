"""The workloads train with AdamW as in eager: losses and parameters are as near to a float64 run as eager's own, times two."""

import copy

import compare
import pytest
import torch
import training
import zoo

# Of one image, batch norm's last statistics are those of four numbers, and a third of a gradient's norm is rounding in either run.
SIZES = zoo.TEST_SIZES | {"resnet50": dict(batch=4, size=64)}
# A few steps later rounding decides all the same.
STEPS = {"resnet50": 3, "unet": 4}


def losses_of(workload, called, steps, autocast=None):
    optimizer = torch.optim.AdamW(workload.model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
            out = zoo.main_output(called(*workload.args, **workload.kwargs))
            loss = out.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().double())
    return torch.stack(losses)


def copies(name):
    """The same model three times, the last in float64; nothing random in it."""
    workload = zoo.build(name, sizes=SIZES)
    workload.model.train()
    set_dropout(workload, 0.0)
    again = lambda: zoo.Workload(name, copy.deepcopy(workload.model), workload.args, workload.kwargs)
    return workload, again(), again().to(torch.float64)


def set_dropout(workload, p):
    for module in workload.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = p
        for field in ("dropout", "attention_dropout", "dropout_prob", "attn_dropout"):
            if isinstance(getattr(module, field, None), float):
                setattr(module, field, p)
    config = getattr(workload.model, "config", None)
    for field in vars(config) if config is not None else ():
        if "drop" in field and isinstance(getattr(config, field), float):
            setattr(config, field, p)


def assert_follows(ours, eagers, exact, what):
    """The rule of `compare`, by the length of the error: single elements are chance."""
    own, their = (ours - exact).norm(), (eagers - exact).norm()
    problem = compare.closeness(ours.float(), eagers.float())
    assert problem is None or own <= 2 * their, f"{what}: error {own:.2e}, eager's {their:.2e}; {problem}"


@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["f32", "autocast"])
@pytest.mark.parametrize("name", zoo.NAMES)
def test_training_follows_eager(name, autocast):
    ours, eager, exact = copies(name)
    steps = STEPS.get(name, 20) if autocast is None else 3
    called = training.DOORS["capture"](ours.model)
    got, want = losses_of(ours, called, steps, autocast), losses_of(eager, eager.model, steps, autocast)
    right = losses_of(exact, exact.model, steps)
    assert_follows(got, want, right, "losses")
    pairs = zip(ours.model.parameters(), eager.model.parameters(), exact.model.parameters())
    assert_follows(*(torch.cat([p.detach().double().flatten() for p in group]) for group in zip(*pairs)), "parameters")


@pytest.mark.parametrize("name", zoo.NAMES)
def test_train_mode_is_one_graph(name):
    workload = zoo.build(name, sizes=zoo.TEST_SIZES)
    workload.model.train()
    set_dropout(workload, 0.1)
    out = zoo.main_output(training.DOORS["capture"](workload.model)(*workload.args, **workload.kwargs))
    assert type(out.grad_fn).__name__ == "CompiledFunctionBackward"
    behind = {type(function).__name__ for function, _ in out.grad_fn.next_functions if function is not None}
    assert behind == {"AccumulateGrad"}
    out.float().square().mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in workload.model.parameters() if p.grad is not None)
