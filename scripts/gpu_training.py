"""Small training programs on CUDA: values, gradients and what is written, against eager and a run in float64.

    python scripts/gpu_training.py          # a part of scripts/gpu_report.py, too
"""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "tests")]

import torch
import torch.nn as nn
import torch.nn.functional as F

HALF = torch.bfloat16


def x(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def index(n, *shape):
    return torch.randint(0, n, shape, device="cuda")


def functions():
    """Name, function of tensors, tensors: those of floats get gradients."""
    for dtype in (torch.float32, HALF):
        label = "bf16" if dtype == HALF else "f32"
        t = lambda *shape, dtype=dtype: x(*shape, dtype=dtype)
        yield f"linear, gelu {label}", lambda a, w, b: F.gelu(F.linear(a, w, b)), (t(4, 128, 256), t(512, 256), t(512))
        yield f"bias of many rows {label}", lambda a, b: (a + b).sin(), (t(8192, 768), t(768))
        yield f"layer norm {label}", lambda a, w, b: F.layer_norm(a, (a.shape[-1],), w, b), (t(4096, 768), t(768), t(768))
        yield f"group norm {label}", lambda a, w, b: F.silu(F.group_norm(a, 8, w, b)), (t(4, 64, 32, 32), t(64), t(64))
        yield f"softmax {label}", lambda a: F.softmax(a, -1), (t(300, 1000),)
        yield f"cross entropy {label}", lambda a, i: F.cross_entropy(a, i), (t(512, 5000), index(5000, 512))
        yield f"embedding {label}", lambda w, i: F.embedding(i, w, padding_idx=3) * 2, (t(1000, 256), index(1000, 32, 64))
        yield f"gather, index {label}", lambda a, i: a[i] * a.gather(0, i[:, None].expand(-1, 8)).abs().mean(), (t(500, 8), index(500, 900))
        yield f"index add {label}", lambda a, i, s: a.index_add(0, i, s), (t(100, 64), index(100, 5000), t(5000, 64))
        yield f"max pool {label}", lambda a: F.max_pool2d(a, 3, 2, 1) * 2, (t(2, 16, 33, 33),)
        yield f"average pools {label}", lambda a: F.avg_pool2d(a, 2) + F.adaptive_avg_pool2d(a, 16), (t(2, 16, 32, 32),)
        yield f"convolution {label}", lambda a, w, b: F.relu(F.conv2d(a, w, b, padding=1)), (t(4, 32, 28, 28), t(64, 32, 3, 3), t(64))
        yield f"strided, grouped {label}", lambda a, w: F.conv2d(a, w, stride=2, groups=4), (t(4, 32, 28, 28), t(64, 8, 3, 3))
        yield f"column products {label}", lambda a, b: (a * b).sum(0) + (a * a).mean(0), (t(5000, 96), t(5000, 96))
        yield f"sum over planes {label}", lambda a: (a * a).sum((0, 2, 3)), (t(16, 48, 28, 28),)
        yield f"cat, pad, slice {label}", lambda a, b: F.pad(torch.cat([a, b], 1), (1, 2))[:, 5:] * 3, (t(33, 65), t(33, 31))
        for width, rows, columns in ((64, 128, 128), (64, 197, 197), (32, 64, 256), (128, 77, 77)):
            heads = (t(2, 4, rows, width), t(2, 4, columns, width), t(2, 4, columns, width))
            name = f"attention {label} {rows}x{columns}x{width}"
            yield name, lambda q, k, v: F.scaled_dot_product_attention(q, k, v) + 1, heads
            if rows == columns:
                yield f"{name} causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), heads
            seen = torch.rand(2, 1, 1, columns, device="cuda") < 0.8
            yield f"{name} masked", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), (*heads, seen)
        split = lambda a: [y.view(2, 128, 4, 64).transpose(1, 2) for y in a.chunk(3, -1)]
        yield f"attention of one projection {label}", lambda a: F.scaled_dot_product_attention(*split(a)), (t(2, 128, 768),)
    yield "f64", lambda a, w: F.layer_norm(a @ w, (64,)).tanh(), (x(128, 32, dtype=torch.float64), x(32, 64, dtype=torch.float64))


def modules():
    """Name, module, input."""
    block = lambda: nn.Sequential(nn.Conv2d(8, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 16, 1), nn.BatchNorm2d(16))
    for dtype in (torch.float32, HALF):
        label = "bf16" if dtype == HALF else "f32"
        yield f"batch norm {label}", block().cuda().to(dtype), x(16, 8, 32, 32, dtype=dtype)
        yield f"batch norm channels last {label}", block().cuda().to(dtype), x(16, 8, 32, 32, dtype=dtype).to(memory_format=torch.channels_last)
        yield f"transformer {label}", nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True).cuda().to(dtype), x(4, 64, 128, dtype=dtype)


def gradients(function, args):
    leaves = [a.requires_grad_() for a in args if a.is_floating_point()]
    out = function(*args)
    torch.manual_seed(1)
    seed = torch.randn(out.shape, device="cuda").to(out.dtype)
    return out.detach(), *torch.autograd.grad(out, leaves, seed)


def check_function(function, args, compile):
    import compare

    expected = gradients(function, compare.copies(args))
    fast = compile(function)
    reference = lambda: gradients(function, compare.to_double(compare.copies(args)))
    for call in ("first", "second"):
        # The memory order of a gradient is eager's own business.
        compare.assert_same(gradients(fast, compare.copies(args)), expected, reference, strides=False, label=call)


def check_any_sizes(function, args, compile):
    import functools

    import oxytorch

    check_function(function, args, functools.partial(oxytorch.compile, dynamic=True))


def check_module(module, given, compile):
    import copy

    import compare

    def run(module, called, given):
        leaf = given.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        out = called(leaf)
        out.float().square().mean().backward()
        written = [b.clone() for b in module.buffers()]
        return [out.detach(), leaf.grad, *[p.grad for p in module.parameters()], *written]

    plain, ours, wide = copy.deepcopy(module), copy.deepcopy(module), copy.deepcopy(module).double()
    expected = run(plain, plain, given)
    compare.assert_same(run(ours, compile(ours), given), expected, lambda: run(wide, wide, given.double()), strides=False, times=4)


def check_deterministic(compile):
    """Gradients that meet in one place are the same, bit for bit, in every run."""
    w, i = x(300, 256), index(300, 20000)
    torch.use_deterministic_algorithms(True)
    try:
        fast = compile(lambda w, i: F.embedding(i, w).sin())
        first, *others = (gradients(fast, (w.clone(), i))[1] for _ in range(4))
        assert all(torch.equal(first, other) for other in others), "they differ"
        torch.testing.assert_close(first, gradients(lambda w, i: F.embedding(i, w).sin(), (w.clone(), i))[1])
    finally:
        torch.use_deterministic_algorithms(False)


def check_lengths(compile):
    """One trace for two keys and more, and one for a single key, of which the best kernel knows nothing."""
    import compare
    import oxytorch

    fast = oxytorch.compile(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m) * 2, dynamic=True)
    plain = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m) * 2
    for length in (128, 77, 1, 200, 2):
        heads = [x(2, 4, length, 64, dtype=HALF) for _ in range(3)]
        args = (*heads, torch.rand(2, 1, 1, length, device="cuda") < 0.8 if length > 1 else torch.ones(2, 1, 1, 1, device="cuda") > 0)
        reference = lambda: gradients(plain, compare.to_double(compare.copies(args)))
        with warnings.catch_warnings():
            # One key is torch's, which is said.
            warnings.simplefilter("ignore" if length == 1 else "error")
            found = gradients(fast, compare.copies(args))
        compare.assert_same(found, gradients(plain, compare.copies(args)), reference, strides=False, label=f"length {length}")
    assert fast.stats()["traced"] <= 2, fast.stats()


class Autocast(nn.Module):
    """Regions inside of the model: a part of it is done as it is."""

    def __init__(self, dtype, *parts):
        super().__init__()
        self.dtype, self.parts = dtype, nn.ModuleList(parts)

    def forward(self, given):
        first, *others, last = self.parts
        with torch.autocast("cuda", dtype=self.dtype):
            value = first(given)
            for part in others:
                value = part(value)
            with torch.autocast("cuda", enabled=False):
                value = F.softmax(last(value.float()), -1) + value.float().mean()
            return F.linear(value, last.weight.t())


def check_scaled(dtype, place, door, compile):
    """Steps of mixed precision: autocast, GradScaler, fused AdamW."""
    import copy

    import oxytorch

    compile = oxytorch.compile if door == "capture" else compile
    parts = nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Conv1d(512, 512, 1), nn.Linear(256, 8)
    plain = (Autocast(dtype, *parts) if place == "inside" else nn.Sequential(*parts)).cuda()
    ours, given, targets = copy.deepcopy(plain), x(512, 64), index(8, 512)

    def train(module, called):
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)
        scaler, losses = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16), []
        for _ in range(5):
            with torch.autocast("cuda", dtype=dtype, enabled=place == "around"):
                loss = F.cross_entropy(called(given), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.append(loss.item())
        return torch.tensor(losses)

    torch.testing.assert_close(train(ours, compile(ours)), train(plain, plain), rtol=2e-2, atol=1e-3)


def check(compile):
    """One row for each program."""
    import oxytorch

    rows = []
    programs = [(name, check_function, (function, args)) for name, function, args in functions()]
    programs += [(f"{name}, any sizes", check_any_sizes, (function, args)) for name, function, args in functions()]
    programs += [(name, check_module, (module, given)) for name, module, given in modules()]
    programs += [("deterministic", check_deterministic, ()), ("lengths", check_lengths, ())]
    mixed = itertools.product((HALF, torch.float16), ("around", "inside"), ("Dynamo", "capture"))
    programs += [(f"autocast {' '.join(map(str, kind))}", check_scaled, kind) for kind in mixed]
    for name, checked, given in programs:
        row = dict(name=name)
        try:
            torch.manual_seed(0)
            checked(*given, compile)
            torch.cuda.synchronize()
            report = oxytorch.last_compile()
            row.update(outcome=report["outcome"], reason=report["reason"])
        except Exception as error:
            row.update(outcome="wrong", error=f"{type(error).__name__}: {error}"[:1500])
        rows.append(row)
        if row["outcome"] != "compiled":
            print("  training", json.dumps(row)[:500], flush=True)
    print("training programs:", dict(collections.Counter(row["outcome"] for row in rows)), flush=True)
    return rows


def dynamo(function):
    import oxytorch

    torch._dynamo.reset()
    return torch.compile(function, backend=oxytorch.dynamo_backend)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="torch")
    print("there is no GPU here") if not torch.cuda.is_available() else check(dynamo)
