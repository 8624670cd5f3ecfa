"""Autocast, inside of compiled functions and around them."""

import copy
import warnings

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from checking import check_native
from oxytorch import _autocast
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only


def test_regions_of_autocast():
    linear = torch.nn.Linear(4, 4)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = linear(x)
            inside = torch.mm(y.softmax(-1), x.t()), F.layer_norm(y, (4,)), torch.cat([x, y]), F.gelu(y) * x
            losses = F.mse_loss(y, y.relu()), F.cross_entropy(y, torch.tensor([1, 2, 0])), y.add(1).prod(-1)
            with torch.autocast("cpu", enabled=False):
                off = torch.mm(x.t(), x)
            product = torch.einsum("ij,kj->ik", x, y)
        return y, inside, losses, off, product, linear(x)

    check_native(f, torch.randn(3, 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_around_the_call(dtype):
    parts = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    model = torch.nn.Sequential(*parts).eval()

    def f(x, q):
        return model(x), F.scaled_dot_product_attention(q, q, q, q[0, 0] > 0), (x + 1) * 2, x.double() @ x.double()

    with torch.autocast("cpu", dtype=dtype):
        compiled = check_native(f, torch.randn(2, 3, 8, 8), torch.randn(1, 2, 8, 8))
    x, q = torch.randn(2, 3, 8, 8), torch.randn(1, 2, 8, 8)
    with torch.no_grad():
        compare.assert_same(compiled(x, q), f(x, q))


def test_pointwise_results_under_autocast_are_eagers_bit_for_bit():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x * y + x).relu() / 7 + y.bfloat16(), torch.stack([x, y.bfloat16()]) * y

    x, y = torch.randn(4096), torch.randn(4096)
    got, want = torch.compile(f, backend="oxytorch", fullgraph=True)(x, y), f(x, y)
    assert all(a.dtype == b.dtype and a.equal(b) for a, b in zip(got, want))


def test_a_function_that_autocast_converts_in_part_runs_in_eager():
    def f(x):
        return F.multi_head_attention_forward(*[x] * 3, 8, 2, weight, bias, None, None, False, 0.0, out, None, need_weights=False)[0]

    weight, bias, out = torch.randn(24, 8), torch.randn(24), torch.randn(8, 8)
    x = torch.randn(5, 1, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare.assert_same(torch.compile(f, backend="oxytorch", fullgraph=True)(x), f(x))
    assert "autocast" in oxytorch.last_compile()["reason"]


# On a GPU, whose lists are others: fake tensors need none.


def fake(*shape, dtype=torch.float32):
    with FAKES:
        return torch.empty(*shape, dtype=dtype, device="cuda")


FAKES = FakeTensorMode()
HALF, FULL = torch.float16, torch.float32
LISTS = {
    "products are done in half types": (F.linear, (fake(3, 4), fake(5, 4), fake(5)), HALF),
    "attention, too": (F.scaled_dot_product_attention, [fake(1, 2, 8, 8)] * 3, HALF),
    "so are convolutions of several types": (F.conv1d, (fake(1, 3, 8, dtype=HALF), fake(4, 3, 3)), HALF),
    "norms are not": (F.layer_norm, (fake(3, 4, dtype=HALF), (4,), fake(4)), FULL),
    "a softmax is told its type": (F.softmax, (fake(3, 4, dtype=HALF), -1), FULL),
    "a sum as well": (torch.Tensor.sum, (fake(3, 4, dtype=HALF), -1), FULL),
    "a cross entropy is, in part": (F.cross_entropy, (fake(3, 4, dtype=HALF), fake(3, dtype=torch.long)), FULL),
    "the widest wins": (torch.addcmul, (fake(3), fake(3, dtype=HALF), fake(3, dtype=HALF)), FULL),
    "nothing is done to others": (torch.mean, (fake(3, 4, dtype=HALF),), None),
    "nor to doubles": (torch.mm, [fake(4, 4, dtype=torch.float64)] * 2, None),
    "nor to what has its type": (F.linear, (fake(3, 4, dtype=HALF), fake(5, 4, dtype=HALF)), None),
}


@pytest.mark.parametrize("function, args, expected", LISTS.values(), ids=LISTS)
def test_lists_of_a_gpu(function, args, expected):
    assert _autocast.conversion(function, tuple(args), {}, "cuda", HALF) == expected
    shadows = tree_map_only(torch.Tensor, lambda t: torch.empty(t.shape, dtype=t.dtype, device="meta"), tuple(args))
    assert _autocast.conversion_of_shadows(function, shadows, {}, "cuda", HALF) == expected
    assert not torch.is_autocast_enabled("cuda")


def region(graph, *setting):
    return graph.call_function(torch.amp._enter_autocast, setting)


def test_regions_of_a_gpu_are_conversions_in_the_graph(tmp_path):
    graph, w = torch.fx.Graph(), fake(4, 4)
    weight = graph.placeholder("w")
    outer = region(graph, "cuda", torch.bfloat16, True, True)
    inner = region(graph, "cuda", None, False, True)
    products = [graph.call_function(torch.mm, (weight, weight))]
    for opened in (inner, outer):
        graph.call_function(torch.amp._exit_autocast, (opened,))
        # Regions of the CPU's have no say here.
        around = region(graph, "cpu", torch.bfloat16, True, True)
        products.append(graph.call_function(torch.mm, (weight, weight)))
        graph.call_function(torch.amp._exit_autocast, (around,))
    graph.output(tuple(products))
    weight.meta["example_value"] = w
    for product, dtype in zip(products, (FULL, torch.bfloat16, FULL)):
        product.meta["example_value"] = fake(4, 4, dtype=dtype)
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    with torch.no_grad(), warnings.catch_warnings():
        # Without a driver it stays with torch.
        warnings.simplefilter("ignore")
        oxytorch.dynamo_backend(module, [w], options={"debug_dir": str(tmp_path)})
    (text,) = [path.read_text() for path in tmp_path.glob("graph-*/1-graph.txt")]
    products = [line for line in text.splitlines() if "matmul" in line]
    assert [("bf16" in line) for line in products] == [False, True, False], text
    (optimised,) = [path.read_text() for path in tmp_path.glob("graph-*/2-optimised.txt")]
    assert optimised.count("cast") == 1, optimised


class Small(nn.Module):
    """A convolution with its norm, attention, and a head."""

    def __init__(self):
        super().__init__()
        self.conv, self.batch_norm = nn.Conv2d(2, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.norm, self.qkv, self.head = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, x):
        x = F.gelu(self.batch_norm(self.conv(x))).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(self.norm(x))[:, None].chunk(3, -1)
        return self.head((x + F.scaled_dot_product_attention(q, k, v)[:, 0]).mean(1))


def scaled_steps(model, called, autocast, whole):
    """20 steps, in one of which gradients overflow: it is left out, and the scale falls. Losses, scales and parameters."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=4, enabled=autocast)

    def forward(x, y):
        with torch.autocast("cpu", dtype=torch.float16, enabled=autocast):
            return F.cross_entropy(called(x), y)

    def step(x, y, factor):
        optimizer.zero_grad()
        loss = forward(x, y)
        scaler.scale(loss * factor).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = oxytorch.compile(step) if whole else step
    generator, losses, scales = torch.Generator().manual_seed(1), [], []
    for n in range(20):
        x = torch.randn(4, 2, 8, 8, generator=generator).to(next(model.parameters()).dtype)
        y = torch.randint(5, (4,), generator=generator)
        if n == 7 and not autocast:
            continue
        losses.append(step(x, y, torch.tensor(1e30 if n == 7 else 1.0)).double())
        scales.append(scaler.get_scale())
    return torch.stack(losses), scales, torch.cat([p.detach().double().flatten() for p in model.parameters()])


@pytest.mark.parametrize("whole", [False, True], ids=["model", "step"])
def test_training_in_f16_with_a_scaler_follows_eager(whole):
    torch.manual_seed(0)
    model = Small()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    got = scaled_steps(model, model if whole else oxytorch.compile(model), True, whole)
    want, best = scaled_steps(eager, eager, True, False), scaled_steps(exact, exact, False, False)
    assert got[1] == want[1] and min(want[1]) < max(want[1])
    own, their = (got[2] - best[2]).norm(), (want[2] - best[2]).norm()
    assert own <= 2 * their, f"parameters: error {own:.2e}, eager's {their:.2e}"
    torch.testing.assert_close(got[0], want[0], rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(dict(model.named_buffers()), dict(eager.named_buffers()), rtol=1e-2, atol=1e-2)


def test_the_type_of_autocast_is_asked_while_it_is_off():
    def function(x):
        with torch.autocast("cpu"):
            inside = x @ x
        return inside, x.to(torch.get_autocast_dtype("cpu"))

    compiled = oxytorch.compile(function)
    x = torch.ones(2, 2)
    before = torch.get_autocast_dtype("cpu")
    try:
        for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
            torch.set_autocast_dtype("cpu", dtype)
            assert [found.dtype for found in compiled(x)] == [dtype, dtype]
            assert torch.get_autocast_dtype("cpu") == dtype
    finally:
        torch.set_autocast_dtype("cpu", before)
