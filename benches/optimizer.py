"""One step of AdamW over 200 parameters: eager in its three forms, torch.compile and oxytorch side by side.

    make bench BENCH=--optimizer

The shapes are those of a small transformer's layers. The first column is the time of the first two calls, in which state is made and
code is compiled; the second the best of many steps, each with another learning rate, as a scheduler gives it.
"""

from __future__ import annotations

import time

import torch

SHAPES = ((64, 64), (64,), (256, 64), (256,))
PARAMETERS = 200


def parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    made = [torch.nn.Parameter(torch.randn(SHAPES[n % len(SHAPES)])) for n in range(PARAMETERS)]
    for parameter in made:
        parameter.grad = torch.randn_like(parameter)
    return made


def contestants():
    import oxytorch

    yield "eager, single", dict(foreach=False), lambda step: step
    yield "eager, foreach", dict(foreach=True), lambda step: step
    yield "eager, fused", dict(fused=True), lambda step: step
    yield "torch.compile", dict(foreach=True), torch.compile
    yield "oxytorch, single", dict(foreach=False), oxytorch.compile
    yield "oxytorch, foreach", dict(foreach=True), oxytorch.compile


def measure(options: dict, compiler, repeats: int = 50) -> tuple[float, float]:
    optimizer = torch.optim.AdamW(parameters(), lr=1e-3, weight_decay=0.01, **options)
    step = compiler(optimizer.step)
    start = time.perf_counter()
    step()
    step()
    first = time.perf_counter() - start
    best = float("inf")
    for n in range(repeats):
        optimizer.param_groups[0]["lr"] = 1e-3 * 0.99**n
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return first, best


def main() -> None:
    print(f"{'AdamW, 200 parameters':24} {'two calls, s':>14} {'a step, ms':>12}")
    for name, options, compiler in contestants():
        first, best = measure(options, compiler)
        print(f"{name:24} {first:14.2f} {best * 1e3:12.3f}", flush=True)


if __name__ == "__main__":
    main()
