"""Whole models against eager, in float32 and bfloat16, and how much of each is done natively."""

import copy

import compare
import oxytorch
import pytest
import torch
import zoo

DTYPES = [torch.float32, torch.bfloat16]
ENTRIES = {
    "dynamo": lambda model: torch.compile(model, backend="oxytorch", fullgraph=True),
    "capture": lambda model: oxytorch.compile(model, fullgraph=True),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
@pytest.mark.parametrize("name", zoo.NAMES)
@pytest.mark.parametrize("entry", ENTRIES)
def test_model_equals_eager(entry, name, dtype):
    workload = zoo.build(name, dtype, zoo.TEST_SIZES)
    expected = workload.run(workload.model)
    compiled = ENTRIES[entry](workload.model)
    first, second = workload.run(compiled), workload.run(compiled)

    def reference():
        double = zoo.Workload(name, copy.deepcopy(workload.model), workload.args, workload.kwargs).to(torch.float64)
        return double.run(double.model)

    compare.assert_same(first, expected, reference, label=name)
    compare.assert_same(second, first, label=f"{name}, second call")
    report = oxytorch.last_compile()
    assert report["outcome"] == "compiled", report["reason"]
    assert not report["python_calls"], f"done by Python: {report['python_calls']}"


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
@pytest.mark.parametrize("name", zoo.NAMES)
def test_frozen_model_equals_eager(name, dtype):
    workload = zoo.build(name, dtype, zoo.TEST_SIZES)
    expected = workload.run(workload.model)
    compiled = torch.compile(workload.model, backend="oxytorch", fullgraph=True, options={"freezing": True})

    def reference():
        double = zoo.Workload(name, copy.deepcopy(workload.model), workload.args, workload.kwargs).to(torch.float64)
        return double.run(double.model)

    first, second = workload.run(compiled), workload.run(compiled)
    # Folded weights are rounded once more, and packed calls sum in an order of their own.
    compare.assert_same(first, expected, reference, label=name)
    compare.assert_same(second, first, label=f"{name}, second call")
    assert oxytorch.last_compile()["outcome"] == "compiled", oxytorch.last_compile()["reason"]


def test_new_weights_are_used_after_load_state_dict():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    x = torch.randn(3, 8)
    compiled = torch.compile(model, backend="oxytorch")
    with torch.no_grad():
        compiled(x)
        model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
        compare.assert_same(compiled(x), model(x))


def test_layers_of_one_shape_share_kernels():
    def stack(depth):
        return torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.LayerNorm(32)) for _ in range(depth)])

    counts = []
    for depth in (2, 8):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(stack(depth), backend="oxytorch")(torch.randn(4, 32))
        counts.append(oxytorch.last_compile()["kernels"])
    assert counts[0] == counts[1], counts
