"""What oxytorch does on the GPU of this machine, next to eager and torch.compile: correctness, bandwidth, the workloads.

    python scripts/gpu_report.py --out results                 # all of it
    python scripts/gpu_report.py --parts cases,bandwidth       # some of it

Writes gpu.md and gpu.json into `--out` (docs/, unless told otherwise). Parts: `cases` (programs against eager), `ops` (torch's OpInfo database on CUDA),
`gradients` (small training programs against eager: `gpu_training.py`),
`bandwidth` (kernels over 1 GB against a copy), `reductions` (sums for one size and for any), `products` (linear layers, forward and backward), `models` and `train` (the workloads of benches/ in bf16: inference; forward, backward, AdamW),
`modes` (inference with recorded graphs, next to torch.compile's). A run is `who` or `who:mode`; `who:dynamic` is compiled for any sizes. With `--together` all runs of a part compile at
the same time and are measured one by one when all are ready: minutes become one, but the times of first calls say nothing.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fcntl
import functools
import itertools
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "python/tests", "benches", "scripts")]

import torch
import torch.nn.functional as F

GPU_SIZES = {
    "bert": dict(layers=12, hidden=768, batch=32, seq=128),
    "gpt2": dict(layers=12, hidden=768, batch=4, seq=512),
    "vit": dict(layers=12, hidden=768, batch=64),
    "resnet50": dict(batch=64),
    "unet": dict(batch=4, size=64, ch=128),
    "llama": dict(layers=8, hidden=2048, batch=4, seq=512),
    "graphsage": dict(nodes=20000, edges=200000, feat=256, hidden=256),
}
# Its library looks for GPUs when it is imported: that must not happen in a process that is forked.
TOUCHES_GPU = ("graphsage",)
# Seconds that one run of a model may take.
LONGEST = 200
# Not one of torch.compile's modes: for any sizes.
DYNAMIC = "dynamic"
MODEL_PARTS = {"models": "inference", "train": "training step", "modes": "inference, recorded graphs"}
MODE_RUNS = "eager,inductor:reduce-overhead,oxytorch,oxytorch:reduce-overhead"
OP_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64}


def compiled(function, **options):
    import oxytorch

    torch._dynamo.reset()
    return torch.compile(function, backend=oxytorch.dynamo_backend, **options)


# Programs that show each family of kernels.


def cases():
    cuda = dict(device="cuda")
    x = lambda *shape, dtype=torch.float32: torch.randn(*shape, **cuda).to(dtype)
    half = torch.bfloat16
    index = lambda n, *shape: torch.randint(0, n, shape, **cuda)
    yield "pointwise", lambda a, b: F.gelu(a) * b + 1, (x(1000, 1024), x(1000, 1024))
    yield "pointwise bf16", lambda a, b: torch.relu(a) * b - a, (x(4097, 1024, dtype=half), x(4097, 1024, dtype=half))
    yield "pointwise f16", lambda a, b: torch.tanh(a) / (b.abs() + 1), (x(513, 33, dtype=torch.float16), x(513, 33, dtype=torch.float16))
    yield "odd sizes", lambda a: (a * 2).sin(), (x(7, 13, 11),)
    yield "an unaligned argument", lambda a: a.exp() + 1, (x(4 * 264 * 256 + 1)[1:],)
    yield "broadcast", lambda a, b: a + b[:, None] * 2, (x(2048, 512), x(2048))
    yield "transpose", lambda a: (a.t() * 2).contiguous(), (x(1000, 700),)
    for n in (5, 64, 768, 1000, 4096, 50257):
        yield f"softmax {n}", lambda a: F.softmax(a, -1), (x(300, n),)
        yield f"layer norm {n} bf16", lambda a, w, b: F.layer_norm(a, (a.shape[-1],), w, b), (x(300, n, dtype=half), x(n, dtype=half), x(n, dtype=half))
    yield "rms norm", lambda a, w: a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6) * w, (x(4, 512, 2048, dtype=half), x(2048, dtype=half))
    yield "group norm", lambda a: F.group_norm(a, 8), (x(4, 64, 32, 32),)
    yield "sum of all", lambda a: a.sum(), (x(3000, 1111),)
    yield "column sums", lambda a: a.sum(0), (x(8192, 1000),)
    yield "column mean, max", lambda a: (a.mean(0), a.amax(0)), (x(777, 33),)
    yield "middle axis", lambda a: a.sum(1), (x(20, 300, 40),)
    yield "variance", lambda a: torch.var(a, -1), (x(64, 5000),)
    yield "argmax", lambda a: (a.argmax(-1), a.argmin(0)), (x(100, 1000),)
    yield "cumsum", lambda a: (a.cumsum(-1), a.cumsum(0)), (x(60, 1500),)
    yield "cross entropy", lambda a, t: F.cross_entropy(a, t), (x(512, 32000), index(32000, 512))
    yield "embedding", lambda w, i: F.embedding(i, w) * 2, (x(1000, 256, dtype=half), index(1000, 32, 64))
    yield "gather", lambda a, i: a.gather(1, i), (x(200, 300), index(300, 200, 50))
    yield "index add", lambda a, i, s: a.index_add(0, i, s), (x(100, 64), index(100, 5000), x(5000, 64))
    yield "scatter add i64", lambda a, i: a.scatter_add(0, i, torch.ones_like(i)), (torch.zeros(50, dtype=torch.long, **cuda), index(50, 10000))
    yield "scatter amax bf16", lambda a, i, s: a.scatter_reduce(0, i, s, "amax"), (x(50, dtype=half), index(50, 9000), x(9000, dtype=half))
    yield "index put", lambda a, i, s: torch.index_put(a, (i,), s), (x(500, 8), torch.randperm(500, **cuda)[:100], x(100, 8))
    yield "cat, pad", lambda a, b: F.pad(torch.cat([a, b], 1), (1, 2)), (x(33, 65), x(33, 31))
    half_of = lambda *shape: x(*shape, dtype=half)
    for width in (64, 80):
        qkv = [half_of(3, 4, 130, width) for _ in range(3)]
        yield f"attention {width}", F.scaled_dot_product_attention, qkv
        yield f"attention {width}, causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.1), qkv
        yield f"attention {width}, a mask", F.scaled_dot_product_attention, (*qkv, half_of(3, 1, 1, 130))
        yield f"attention {width}, a mask of booleans", F.scaled_dot_product_attention, (*qkv, x(3, 1, 130, 130) > -1)
    heads = lambda a: a.unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    for dtype in (half, torch.float32):
        yield f"attention of heads that lie side by side, {dtype}", lambda a: F.scaled_dot_product_attention(*heads(a)), (x(3, 130, 768, dtype=dtype),)
        yield f"attention, {dtype}", lambda a: F.scaled_dot_product_attention(a, a, a), (x(3, 4, 130, 64, dtype=dtype),)
    yield "a few classes", lambda a, w, b: F.linear(a, w, b) + 1, (half_of(33, 128), half_of(3, 128), half_of(3))
    yield "linear", lambda a, w, b: F.linear(a, w, b) * 2, (half_of(300, 768), half_of(3072, 768), half_of(3072))
    yield "linear f16", F.linear, (x(7, 65, 128, dtype=torch.float16), x(24, 128, dtype=torch.float16))
    yield "products across", lambda a, b: (a.t() @ b, a @ b.t(), (a.t() @ b).t().contiguous()), (half_of(512, 256), half_of(512, 256))
    yield "a batch of products", lambda a, b: (torch.bmm(a, b), torch.bmm(a, b.transpose(1, 2)), a @ b[0]), (half_of(12, 64, 96), half_of(12, 96, 96))
    yield "products of odd places", lambda a, b: a[:, 1:] @ b[1:], (half_of(520, 265), half_of(265, 512))
    yield "products of odd rows", lambda a, b: a @ b + 1, (half_of(33, 7), half_of(7, 13))
    for rows, columns in ((512, 1001), (700, 50257), (1000, 5007)):
        yield f"a vocabulary of {columns}", F.linear, (half_of(rows, 256), half_of(columns, 256))
    yield "a vocabulary with a bias", F.linear, (x(2, 300, 512, dtype=torch.float16), x(1003, 512, dtype=torch.float16), x(1003, dtype=torch.float16))
    yield "integers", lambda a, b: (a // b, a % b, a << 2, a & b), (index(1000, 999), index(9, 999) + 1)
    yield "booleans", lambda a: (a > 0).any(-1) & (a < 2).all(-1), (x(200, 300),)
    yield "where f64", lambda a: torch.where(a > 0, a.sqrt(), -a), (x(1001, dtype=torch.float64),)
    yield "linear, gelu", lambda a, w, b: F.gelu(F.linear(a, w, b)), (x(4, 128, 256, dtype=half), x(512, 256, dtype=half), x(512, dtype=half))
    yield "bmm", lambda a, b: torch.bmm(a, b) * 0.5, (x(8, 65, 33), x(8, 33, 17))
    yield "attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True) + 1, tuple(x(2, 8, 197, 64, dtype=half) for _ in range(3))
    yield "convolution", lambda a, w: F.relu(F.conv2d(a, w, padding=1)), (x(4, 32, 28, 28, dtype=half), x(64, 32, 3, 3, dtype=half))
    yield "a pool and what comes behind it", lambda a: F.layer_norm(F.max_pool2d(a * 2, 2).flatten(2), (a.shape[2] // 2 * (a.shape[3] // 2),)), (x(2, 16, 33, 20),)
    yield "max pool", lambda a: F.max_pool2d(a, 2) + F.avg_pool2d(a, 2), (x(2, 16, 32, 32),)
    yield "in place", lambda a, b: a.mul_(2).add_(b), (x(128, 128), x(128, 128))
    yield "sort", lambda a: a.sort(-1)[0] * 2, (x(20, 300),)
    yield "an index tensor made here", lambda a: a[torch.arange(0, 10, 2, device="cuda")] + 1, (x(10, 20),)


def run_cases(result):
    import compare
    import oxytorch

    rows = []
    doors = {"Dynamo": compiled, "capture": captured, "any sizes": functools.partial(captured, dynamic=True)}
    for (name, function, args), door in itertools.product(cases(), doors):
        row = dict(name=f"{name}, {door}")
        try:
            with torch.no_grad():
                expected = function(*compare.copies(args))
                fast = doors[door](function)
                reference = lambda: function(*compare.to_double(compare.copies(args)))
                for call in ("first", "second"):
                    compare.assert_same(fast(*compare.copies(args)), expected, reference, label=call)
                torch.cuda.synchronize()
            report = oxytorch.last_compile()
            row.update(outcome=report["outcome"], reason=report["reason"], kernels=report.get("kernels"))
        except Exception as error:
            row.update(outcome="wrong", error=f"{type(error).__name__}: {error}"[:1500])
        rows.append(row)
        if row["outcome"] != "compiled":
            print("  case", json.dumps(row)[:900], flush=True)
    rows += [check_places(), check_large()]
    result["cases"] = rows
    print("cases:", dict(collections.Counter(row["outcome"] for row in rows)), flush=True)


def check_places():
    """Arguments that begin where vectors may and where they may not, one after the other; what only moves NaNs keeps all of their bits."""
    import oxytorch

    row, n = dict(name="arguments that begin anywhere"), 264 * 4096
    try:
        for function, dtype in itertools.product((lambda a: F.gelu(a) * 2, lambda a: torch.cat([a, a])), (torch.bfloat16, torch.float32)):
            fast = compiled(function)
            for start in (0, 1, 0, 3, 1):
                bits = torch.randint(0, 1 << 16, (n + 8,), device="cuda", dtype=torch.int32).to(torch.int16)
                given = bits.view(torch.bfloat16).to(dtype)[start : start + n]
                with torch.no_grad():
                    got, expected = fast(given), function(given)
                torch.testing.assert_close(got, expected, equal_nan=True)
                moved = dtype == torch.bfloat16 and got.numel() != n
                assert not moved or got.view(torch.int16).equal(expected.view(torch.int16)), "bits have changed"
            torch.cuda.synchronize()
        row.update(outcome=oxytorch.last_compile()["outcome"], reason=None)
    except Exception as error:
        row.update(outcome="wrong", error=f"{type(error).__name__}: {error}"[:1500])
        print("  case", json.dumps(row)[:900], flush=True)
    return row


def check_large():
    """Of any size: first few elements, then more than 32 bits count."""
    import oxytorch

    row, fast = dict(name="more than 2^31 elements"), captured(lambda a, b: (a.t() * 2 + b).contiguous(), dynamic=True)
    try:
        for rows in (100, (1 << 31) // 64 + 3, 200):
            a, b = (torch.randint(-50, 50, shape, device="cuda", dtype=torch.int8) for shape in ((rows, 64), (64, 1)))
            with torch.no_grad():
                assert torch.equal(fast(a, b), (a.t() * 2 + b).contiguous()), f"{rows} rows"
            torch.cuda.synchronize()
        row.update(outcome=oxytorch.last_compile()["outcome"], reason=None)
    except Exception as error:
        row.update(outcome="wrong", error=f"{type(error).__name__}: {error}"[:1500])
        print("  case", json.dumps(row)[:900], flush=True)
    torch.cuda.empty_cache()
    return row


# torch's database of operations.


def run_gradients(result):
    import gpu_training

    result["gradients"] = gpu_training.check(compiled)


def ops_shard(shard, shards, samples):
    import test_ops
    from torch.testing._internal.common_methods_invocations import op_db

    wrong, counts = [], test_ops.COUNTS
    pairs = [(info, label) for info in op_db for label in OP_DTYPES]
    for info, label in pairs[shard::shards]:
        dtype = OP_DTYPES[label]
        skip = test_ops.UNINITIALISED | test_ops.AMBIGUOUS
        if info.name in skip or info.name.startswith("jiterator") or not info.supports_dtype(dtype, "cuda"):
            continue
        try:
            with torch.no_grad():
                for sample in itertools.islice(info.sample_inputs("cuda", dtype, requires_grad=False), samples):
                    arguments = test_ops.fxcase.detached(((sample.input, *sample.args), dict(sample.kwargs)))
                    test_ops.check(info, arguments)
                torch.cuda.synchronize()
        except Exception as error:
            wrong.append([info.name, info.variant_test_name, label, f"{type(error).__name__}: {error}"[:400]])
            if "CUDA error" in str(error):
                break
    print("SHARD " + json.dumps(dict(wrong=wrong, counts=dict(counts))), flush=True)


def run_ops(result, given):
    env = dict(os.environ, OMP_NUM_THREADS="1", OXYTORCH_BUG="fatal")
    command = [sys.executable, __file__, "--samples", str(given.samples)]
    workers = [
        subprocess.Popen([*command, "--shard", f"{n}/{given.workers}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        for n in range(given.workers)
    ]
    wrong, counts = [], collections.Counter()
    for number, worker in enumerate(workers):
        out, err = worker.communicate()
        lines = [line for line in out.splitlines() if line.startswith("SHARD ")]
        if not lines:
            wrong.append(["shard", str(number), "", err[-600:]])
            continue
        found = json.loads(lines[0][6:])
        wrong += found["wrong"]
        counts.update(found["counts"])
    result["ops"] = dict(wrong=wrong, counts=dict(counts))
    print("ops:", dict(counts), "wrong:", len(wrong), flush=True)
    for row in wrong[:40]:
        print("  op", json.dumps(row)[:330], flush=True)


# Bytes moved in a second, against a copy.


def bandwidth_cases():
    n, half = 1 << 29, torch.bfloat16
    flat = torch.randn(n, device="cuda").to(half)
    yield "copy", None, (flat,), 2 * 2 * n
    yield "pointwise chain", lambda a: F.gelu(a * 2 + 1), (flat,), 2 * 2 * n
    for width in (768, 4096, 32768):
        rows = flat[: n // width * width].view(-1, width)
        w, b = torch.randn(width, device="cuda", dtype=half), torch.randn(width, device="cuda", dtype=half)
        yield f"layer norm {width}", lambda a, w, b: F.layer_norm(a, (a.shape[-1],), w, b), (rows, w, b), 2 * 2 * rows.numel()
        yield f"softmax {width}", lambda a: F.softmax(a, -1), (rows,), 2 * 2 * rows.numel()
    rows = flat[: n // 50304 * 50304].view(-1, 50304)
    yield "cross entropy 50304", F.cross_entropy, (rows, torch.randint(0, 50304, (rows.shape[0],), device="cuda")), 2 * rows.numel()
    yield "sum over rows", lambda a: a.sum(0), (flat.view(-1, 4096),), 2 * n
    yield "sum of all", lambda a: a.sum(), (flat,), 2 * n
    yield "transpose", lambda a: a.t().contiguous() + 1, (flat.view(16384, -1),), 2 * 2 * n


def median_ms(call, iters=20):
    for _ in range(3):
        call()
    times = []
    for _ in range(iters):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[iters // 2]


def run_bandwidth(result):
    rows, copy = [], None
    with torch.no_grad():
        for name, function, args, moved in bandwidth_cases():
            row = dict(name=name, gb=moved / 1e9)
            if function is None:
                target = torch.empty_like(args[0])
                copy = row["ours"] = moved / median_ms(lambda: target.copy_(args[0])) / 1e9
            else:
                row["eager"] = moved / median_ms(lambda: function(*args)) / 1e9
                ours, theirs = compiled(function), None
                row["ours"] = moved / median_ms(lambda: ours(*args)) / 1e9
                torch._dynamo.reset()
                theirs = torch.compile(function)
                row["inductor"] = moved / median_ms(lambda: theirs(*args)) / 1e9
            row["of_copy"] = row["ours"] / copy
            rows.append(row)
            torch.cuda.empty_cache()
            print("  " + "  ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{v:22}" for k, v in row.items()), flush=True)
    result["bandwidth"] = rows


# Sums, compiled for one size and for any.


def reduction_cases():
    """Name, function, and its arguments at a size: 4 is what is measured, others come first where sizes vary."""
    x = lambda *shape: torch.randn(*shape, device="cuda").to(torch.bfloat16)
    last = lambda a: a.contiguous(memory_format=torch.channels_last)
    numbers = lambda *shape: torch.randn(*shape, device="cuda")
    of_norm = lambda a, g, mean, inverse: (g.float().sum((0, 1)), (g.float() * ((a.float() - mean) * inverse)).sum((0, 1)))
    moments = lambda a: (a.float().mean((0, 2, 3)), a.float().square().mean((0, 2, 3)))
    norm = lambda a: F.group_norm(a, 32)
    yield "gradient of a bias, 32 x 512 x 768", lambda g: g.sum((0, 1)), lambda n: (x(8 * n, 512, 768),)
    yield "gradient of a bias, 4096 x 3072", lambda g: g.sum(0), lambda n: (x(1024 * n, 3072),)
    for length in (512, 128):
        rows = lambda n, length=length: (x(8 * n, length, 768), x(8 * n, length, 768), numbers(8 * n, length, 1), numbers(8 * n, length, 1))
        yield f"gradients of a layer norm, 32 x {length} x 768", of_norm, rows
    yield "statistics of images, 64 x 256 x 56 x 56", moments, lambda n: (x(16 * n, 256, 56, 56),)
    yield "the same in channels-last order", moments, lambda n: (last(x(16 * n, 256, 56, 56)),)
    yield "mean of squares, 64 x 1000 x 1000", lambda a: a.float().square().mean((1, 2)), lambda n: (x(16 * n, 1000, 1000),)
    yield "mean of 14 x 14, 64 x 2048 of them", lambda a: a.mean((2, 3)), lambda n: (x(16 * n, 2048, 14, 14),)
    yield "group norm, 4 x 128 x 64 x 64", norm, lambda n: (x(n, 128, 64, 64),)
    yield "the same in channels-last order", norm, lambda n: (last(x(n, 128, 64, 64)),)
    yield "8 columns of a million", lambda a: a.float().sum(0), lambda n: (x((1 << 18) * n, 8),)


def kernel_us(call, times=10):
    """What a call takes of the GPU's time."""
    from torch.profiler import ProfilerActivity, profile

    for _ in range(4):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(times):
            call()
        torch.cuda.synchronize()
    return sum(event.device_time for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA) / times


def run_reductions(result):
    compilers = {"ours": captured, "inductor": torch.compile}
    rows = result["reductions"] = []
    for name, function, make in reduction_cases():
        row, given = dict(name=name), make(4)
        with torch.no_grad():
            row["eager"] = kernel_us(lambda: function(*given))
            for (who, compiler), dynamic in itertools.product(compilers.items(), (False, True)):
                torch._dynamo.reset()
                fast = compiler(function, dynamic=dynamic)
                for size in (2, 3) if dynamic else ():
                    fast(*make(size))
                row[f"{who}, any sizes" if dynamic else who] = kernel_us(lambda: fast(*given))
        rows.append(row)
        tell_us(row)


# Products, which the library does in one of several ways.


def product_cases():
    """The linear layers of the workloads, forward and backward, and with what comes behind them. Name, function and arguments."""
    x = lambda *shape: torch.randn(*shape, device="cuda").to(torch.bfloat16)
    linears = {"bert": (4096, 768, 3072), "gpt2": (2048, 768, 2304), "llama": (2048, 2048, 7168), "vit": (12608, 768, 3072)}
    for model, (rows, narrow, wide) in linears.items():
        for inner, outer in ((narrow, wide), (wide, narrow)):
            name = f"{model}, {rows} x {inner} to {outer}"
            yield name, F.linear, (x(rows, inner), x(outer, inner), x(outer))
            yield f"{name}, relu", lambda a, w, b: F.relu(F.linear(a, w, b)), (x(rows, inner), x(outer, inner), x(outer))
            yield f"{name}, gradient of rows", lambda g, w: g @ w, (x(rows, outer), x(outer, inner))
            yield f"{name}, gradient of weights", lambda g, a: g.t() @ a, (x(rows, outer), x(rows, inner))


def run_products(result):
    rows = result["products"] = []
    for name, function, args in product_cases():
        row = dict(name=name)
        with torch.no_grad():
            row["eager"] = kernel_us(lambda: function(*args))
            for who, compiler in (("ours", captured), ("inductor", torch.compile)):
                torch._dynamo.reset()
                fast = compiler(function)
                row[who] = kernel_us(lambda: fast(*args))
        rows.append(row)
        tell_us(row)


def tell_us(row):
    print("  " + "  ".join(f"{k} {v:.0f}" if isinstance(v, float) else f"{v:44}" for k, v in row.items()), flush=True)


# The workloads.


class Turns:
    """For processes that compile at the same time and are measured one by one."""

    def __init__(self, context, count):
        self.ready, self.has_come = context.Barrier(count), False

    def come(self):
        """Whoever fails must not keep the others waiting; whoever died does so no longer than this."""
        if not self.has_come:
            self.has_come = True
            with contextlib.suppress(threading.BrokenBarrierError):
                self.ready.wait(LONGEST)

    @contextlib.contextmanager
    def alone(self):
        self.come()
        # A lock that goes with the process that holds it.
        with open(__file__) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def serve_together(names, runs, iters, train):
    torch.set_num_threads(1)
    import zoo  # before the processes are forked

    forking = multiprocessing.get_context("fork")
    jobs = list(itertools.product(names, runs))
    turns = Turns(forking, len(jobs))
    children = [forking.Process(target=model_process, args=(name, None, run, mode, iters, train, turns)) for name, (run, mode) in jobs]
    for child in children:
        child.start()
    for (name, (run, mode)), child in zip(jobs, children):
        child.join()
        if child.exitcode != 0:
            tell(dict(model=name, run=run, mode=mode, failed=f"exit {child.exitcode}"))


def serve_models(names, runs, iters, train):
    """A process of its own for each run, forked from this one, which has imported the libraries and built the model."""
    import zoo

    # Threads of this process would be missing in those that are forked from it.
    torch.set_num_threads(1)
    forking = multiprocessing.get_context("fork")
    for name in names:
        work = None if name in TOUCHES_GPU else zoo.build(name, torch.float32, GPU_SIZES)
        for run, mode in runs:
            child = forking.Process(target=model_process, args=(name, work, run, mode, iters, train))
            child.start()
            child.join(LONGEST)
            if child.exitcode != 0:
                why = "timeout" if child.exitcode is None else f"exit {child.exitcode}"
                # What runs behind it must have the GPU for itself.
                child.kill()
                child.join()
                tell(dict(model=name, run=run, mode=mode, failed=why))


def tell(row):
    """In one piece: several processes may write at the same time."""
    os.write(1, ("RESULT " + json.dumps(row, default=str) + "\n").encode())


def model_process(name, work, run, mode, iters, train, turns=None):
    import measure
    import zoo

    alone = turns.alone if turns else contextlib.nullcontext
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= measure.empty_caches(cache)
        try:
            row = measure_model(work or zoo.build(name, torch.float32, GPU_SIZES), run, mode or None, iters, train, alone)
        except Exception:
            row = dict(model=name, run=run, mode=mode, failed=traceback.format_exc()[-1500:])
            if turns:
                turns.come()
    tell(row)


def measure_model(work, run, mode, iters, train, alone):
    import measure
    import zoo

    torch.set_float32_matmul_precision("high")
    name = work.name
    work = zoo.Workload(name, work.model.cuda(), tuple(cuda(a) for a in work.args), {k: cuda(v) for k, v in work.kwargs.items()})
    work = work.to(torch.bfloat16)
    if train:
        work = measure.Steps(work)
    how = dict(dynamic=True) if mode == DYNAMIC else dict(mode=mode)
    inductor, own = functools.partial(torch.compile, **how), functools.partial(captured, **how)
    model = {"eager": lambda m: m, "inductor": inductor, "oxyfx": compiled, "oxytorch": own}[run](work.model)
    start = time.perf_counter()
    first = work.run(model).float().cpu()
    torch.cuda.synchronize()
    cold = time.perf_counter() - start
    for _ in range(10 if mode else 3):
        work.run(model)
    torch.cuda.synchronize()
    with alone():
        return dict(model=name, run=run, mode=mode or "default", cold_s=cold) | steady(work, model, run, iters, train, first)


def steady(work, model, run, iters, train, first):
    work.run(model)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times, calls = [], []
    for _ in range(iters):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work.run(model)
        calls.append(time.perf_counter() - start)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    row = dict(ms=1e3 * sorted(times)[iters // 2], cpu_ms=1e3 * sorted(calls)[iters // 2])
    # What torch's allocator holds for recorded graphs counts as reserved only.
    row |= dict(peak_mb=torch.cuda.max_memory_allocated() / 1e6, reserved_mb=torch.cuda.max_memory_reserved() / 1e6)
    if run != "eager":
        expected, exact = (r.float().cpu() for r in references(work, train))
        row["error"], row["eagers_error"] = distance(first, exact), distance(expected, exact)
    if run.startswith("oxy"):
        import oxytorch

        row["report"] = {k: v for k, v in oxytorch.last_compile().items() if k in ("outcome", "reason", "kernels", "launches", "stages", "library_calls", "python_calls", "cuda_graphs")}
    return row


def references(work, train):
    """What eager gives for the first call, and what it gives in float32."""
    import measure
    import zoo

    if not train:
        return work.run(work.model), work.to(torch.float32).run(work.model)
    expected = work.first()
    work.untouched.zero_grad(set_to_none=True)
    wide = zoo.Workload(work.workload.name, work.untouched, work.workload.args, work.workload.kwargs)
    return expected, measure.Steps(wide.to(torch.float32)).first()


def captured(model, **options):
    import oxytorch

    return oxytorch.compile(model, **options)


def cuda(value):
    return value.cuda() if isinstance(value, torch.Tensor) else value


def distance(a, exact):
    return float((a - exact).norm() / exact.norm())


def run_models(result, given, part):
    runs = MODE_RUNS if part == "modes" else given.runs
    command = [sys.executable, __file__, "--serve", given.models, runs, "--iters", str(given.iters)] + ["--train"] * (part == "train") + ["--together"] * given.together
    rows = result[part] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        for line in server.stdout:
            if line.startswith("RESULT "):
                rows.append(json.loads(line[7:]))
                print("  model", line[7:700].strip(), flush=True)
    if server.returncode != 0:
        rows.append(dict(model="(the rest)", run="", mode="", failed=f"the process that builds the models ended with {server.returncode}"))
    eager = {row["model"]: row["ms"] for row in rows if row["run"] == "eager" and "ms" in row}
    print(f"\n{'model':10} {'run':9} {'mode':16} {'cold s':>7} {'ms':>8} {'cpu ms':>7} {'x eager':>7} {'peak MB':>8} {'reserved':>8} {'error':>9} {'eager':>9}")
    for row in rows:
        if "ms" not in row:
            print(f"{row['model']:10} {row['run']:9} {row.get('failed', '')[-200:]}")
            continue
        times = eager.get(row["model"], float("nan")) / row["ms"]
        errors = f"{row['error']:9.2e} {row['eagers_error']:9.2e}" if "error" in row else ""
        print(f"{row['model']:10} {row['run']:9} {row['mode']:16} {row['cold_s']:7.2f} {row['ms']:8.3f} {row['cpu_ms']:7.3f} {times:7.2f} {row['peak_mb']:8.0f} {row['reserved_mb']:8.0f} {errors}")


def speed(row, run):
    return f"{row[run]:.2f}" if run in row else ""


def write(result, out):
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu.json").write_text(json.dumps(result, indent=1, default=str) + "\n")
    lines = [f"# oxytorch on {result['gpu']}", "", f"torch {torch.__version__}, {time.strftime('%Y-%m-%d')}; `{' '.join(result['command'])}`", ""]
    if "cases" in result:
        lines.append(f"Programs against eager: {dict(collections.Counter(r['outcome'] for r in result['cases']))}.\n")
    if "gradients" in result:
        lines.append(f"Training programs against eager: {dict(collections.Counter(r['outcome'] for r in result['gradients']))}.\n")
    if "ops" in result:
        lines.append(f"OpInfo on CUDA: {result['ops']['counts']}, wrong: {len(result['ops']['wrong'])}.\n")
    if "bandwidth" in result:
        lines += ["| TB/s | eager | torch.compile | oxytorch | of a copy |", "|---|---|---|---|---|"]
        for r in result["bandwidth"]:
            lines.append(f"| {r['name']} | {speed(r, 'eager')} | {speed(r, 'inductor')} | {speed(r, 'ours')} | {r['of_copy']:.0%} |")
        lines.append("")
    for part in ("reductions", "products"):
        if part in result:
            names = [key for key in result[part][0] if key != "name"]
            lines += [f"| us | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
            lines += [f"| {r['name']} | {' | '.join(f'{r[name]:.0f}' for name in names)} |" for r in result[part]]
            lines.append("")
    for part in [part for part in MODEL_PARTS if part in result]:
        lines += ["", f"| {MODEL_PARTS[part]} (bf16) | run | first call s | ms | CPU ms | peak MB | reserved MB | error (eager's) |", "|---|---|---|---|---|---|---|---|"]
        for r in result[part]:
            errors = f"{r['error']:.1e} ({r['eagers_error']:.1e})" if "error" in r else ""
            cells = [f"{r['cold_s']:.2f}", f"{r['ms']:.2f}", f"{r['cpu_ms']:.2f}", f"{r['peak_mb']:.0f}", f"{r['reserved_mb']:.0f}", errors] if "ms" in r else ["failed"]
            lines.append(f"| {r['model']} | {r['run']} {r['mode']} | {' | '.join(cells)} |")
    (out / "gpu.md").write_text("\n".join(lines) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="cases,gradients,ops,bandwidth,reductions,products,models,train,modes")
    parser.add_argument("--models", default=",".join(GPU_SIZES))
    parser.add_argument("--runs", default="eager,inductor,inductor:reduce-overhead,oxyfx,oxytorch")
    parser.add_argument("--iters", type=int, default=30)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--shard")
    parser.add_argument("--serve", nargs=2)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--together", action="store_true")
    return parser.parse_args()


def main():
    given = arguments()
    warnings.filterwarnings("ignore")
    if given.shard:
        shard, shards = map(int, given.shard.split("/"))
        return ops_shard(shard, shards, given.samples)
    if given.serve:
        names, runs = (listed.split(",") for listed in given.serve)
        serve = serve_together if given.together else serve_models
        return serve(names, [run.partition(":")[::2] for run in runs], given.iters, given.train)
    if not torch.cuda.is_available():
        return print("there is no GPU here")
    result = dict(gpu=torch.cuda.get_device_name(), command=["python", *sys.argv])
    parts = dict(cases=lambda: run_cases(result), gradients=lambda: run_gradients(result), ops=lambda: run_ops(result, given), bandwidth=lambda: run_bandwidth(result), reductions=lambda: run_reductions(result), products=lambda: run_products(result))
    parts |= {part: functools.partial(run_models, result, given, part) for part in MODEL_PARTS}
    for part in given.parts.split(","):
        start = time.perf_counter()
        parts[part]()
        print(f"{part}: {time.perf_counter() - start:.0f} s\n", flush=True)
        write(result, given.out)


if __name__ == "__main__":
    main()
