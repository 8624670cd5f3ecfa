"""Measures one workload under one compiler, in a process of its own.

    python benches/measure.py gpt2 oxytorch [--mode default] [--dtype float32] [--iters 20] [--train] [--turns]

Prints one line of JSON. With `--turns` it says when it is ready, and measures `--iters` calls for every line that it then reads: `turns.py`
lets several such processes take turns, so that a machine that is slow for a while is slow for all of them. `compile_s` is the time from graph to callable (what the backend does); `first_s` the whole first call,
capture included, and faster if an earlier process has left its kernels (`empty_caches`); `call_mb` what one call holds at its peak in tensors and intermediates, `peak_mb` the peak of the whole process'
resident memory, with the compiler in it. With `--train` a call is a step: forward, loss, backward, AdamW; `error` is that of the gradients.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import amx

# oxytorch captures Python code itself; oxyfx is its compiler behind torch's Dynamo.
RUNS = ("eager", "oxytorch", "oxyfx", "inductor")
# Not one of torch.compile's modes: both compilers are promised that weights will not change.
FREEZING = "freezing"
READY = "ready"


def measure(name: str, run: str, mode: str = "default", dtype: str = "float32", iters: int = 20, train: bool = False, turns=(None,)) -> dict:
    amx.avoid_if_broken()
    import torch
    import zoo

    workload = zoo.build(name, getattr(torch, dtype))
    if train:
        workload = Steps(workload)
    compiled, compile_times = compiler(run, mode)(workload.model)
    first_s, out = timed(lambda: workload.run(compiled))
    second_s, _ = timed(lambda: workload.run(compiled))
    for _ in range(3):
        workload.run(compiled)
    times = sorted(seconds for _ in turns for seconds in block(lambda: workload.run(compiled), iters))
    result = dict(model=name, run=run, mode=mode, dtype=dtype, train=train, compile_s=0.0, first_s=first_s, second_s=second_s)
    result |= dict(ms=times[len(times) // 2] * 1e3, best_ms=times[0] * 1e3, peak_mb=max_rss_mb())
    result["call_mb"] = arena_mb(run) + allocated_mb(lambda: workload.run(compiled))
    if run != "eager":
        result["error"] = relative_error(out, workload.first() if train else workload.run(workload.model))
    if run.startswith("oxy"):
        result["report"] = last_report()
        compile_times = compile_times or result["report"]["stages"].values()
    result["compile_s"] = sum(compile_times)
    return result


def empty_caches(folder: str) -> dict:
    """The environment of a process that finds nothing compiled, of either compiler."""
    torch_caches = dict(TORCHINDUCTOR_CACHE_DIR=folder, TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    return torch_caches | dict(OXYTORCH_CACHE_DIR=folder)


def block(call, iters: int) -> list[float]:
    """The first call of a block finds other people's data in the caches: it is not counted."""
    return [timed(call)[0] for _ in range(iters + 1)][1:]


class Steps:
    """A workload whose run is a training step; the gradients stand for its result. The model is in train mode, and drops nothing: the masks
    of two compilers are not to be compared, and neither are their gradients then."""

    def __init__(self, workload):
        import copy

        import torch
        import zoo

        self.workload, self.model = workload, workload.model.train()
        zoo.set_dropout(self.model, 0.0)
        self.untouched = copy.deepcopy(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def run(self, model):
        self.optimizer.zero_grad(set_to_none=True)
        gradients = self.gradients(model, self.model)
        self.optimizer.step()
        return gradients

    def gradients(self, called, model):
        import torch
        import zoo

        torch.manual_seed(0)
        zoo.main_output(called(*self.workload.args, **self.workload.kwargs)).square().mean().backward()
        # Those of the last parameter: to gather all of them would be measured, too.
        return next(p.grad for p in reversed(list(model.parameters())) if p.grad is not None)

    def first(self):
        """The gradients of the first step, by eager."""
        return self.gradients(self.untouched, self.untouched)


def compiler(run: str, mode: str):
    """A function that compiles a module: the callable, and a list that fills with the seconds that the backend takes."""
    import torch

    seconds: list[float] = []

    def timed_backend(backend, **kwargs):
        def call(gm, examples):
            elapsed, compiled = timed(lambda: backend(gm, examples, **kwargs))
            seconds.append(elapsed)
            return compiled

        return call

    if run == "eager":
        return lambda module: (module, seconds)
    if run.startswith("oxy"):
        import oxytorch

        chosen = dict(options={"freezing": True}) if mode == FREEZING else dict(mode=mode)
        if run == "oxytorch":
            return lambda module: (oxytorch.compile(module, **chosen), seconds)
        backend = timed_backend(oxytorch.dynamo_backend, **chosen)
    else:
        from torch._inductor import config, list_mode_options
        from torch._inductor.compile_fx import compile_fx

        config.freezing = mode == FREEZING
        backend = timed_backend(compile_fx, config_patches=None if config.freezing else list_mode_options(mode, None))
    return lambda module: (torch.compile(module, backend=backend), seconds)


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def relative_error(got, want) -> float:
    got, want = got.double(), want.double()
    return float((got - want).abs().max() / want.abs().max().clamp_min(1e-12))


def last_report() -> dict:
    import oxytorch

    report = dict(oxytorch.last_compile())
    report["python_calls"] = len(report["python_calls"])
    return report


def allocated_mb(call) -> float:
    """The most that torch's allocator has given out at any time during a call."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak / 1e6


def arena_mb(run: str) -> float:
    """What oxytorch keeps for intermediates, which torch's allocator does not know of: of all compiled graphs together."""
    if not run.startswith("oxy"):
        return 0.0
    from oxytorch import _oxytorch

    return _oxytorch.idle_arena_bytes() / 1e6


def max_rss_mb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def requested():
    """A turn for every line that the parent writes."""
    print(READY, flush=True)
    for _ in sys.stdin:
        yield
        print(READY, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("--mode", default="default")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--turns", action="store_true")
    given = parser.parse_args()
    turns = requested() if given.turns else (None,)
    print(json.dumps(measure(given.name, given.run, given.mode, given.dtype, given.iters, given.train, turns)))
