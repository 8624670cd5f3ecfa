"""What a call costs besides the work: eager, torch.compile and oxytorch side by side.

    make bench BENCH=--overhead

`x + 1` on eight numbers; modules of 1, 10 and 100 layers that do nothing but are called (what is paid for looking at them), with one
parameter each that is multiplied (and for handing it over), and of linear layers. Microseconds of processor time a call, the best of many runs: one thread computes, and other processes count little.
The last lines say by how much a call with 100 layers costs more than one with 1; what the kernels themselves take is in it.
"""

from __future__ import annotations

import time

import torch
from torch import nn

DEPTHS = (1, 10, 100)


class Flag(nn.Module):
    def __init__(self):
        super().__init__()
        self.doubles = False

    def forward(self, x):
        return x * 2 if self.doubles else x


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.scale


class AddOne(nn.Module):
    def forward(self, x):
        return x + 1


def cases():
    yield "x + 1", lambda: lambda x: x + 1
    for name, layer in (("calls", Flag), ("scales", Scale), ("linears", lambda: nn.Linear(8, 8))):
        for depth in DEPTHS:
            yield f"{depth} {name}", lambda layer=layer, depth=depth: nn.Sequential(*(layer() for _ in range(depth)), AddOne()).eval()


def compilers():
    import oxytorch

    yield "eager", lambda f: f
    yield "torch.compile", torch.compile
    yield "oxytorch", oxytorch.compile


def microseconds(function, x, repeats: int = 40, seconds: float = 0.02) -> float:
    for _ in range(20):
        function(x)
    start = time.thread_time()
    function(x)
    calls = max(1, int(seconds / (time.thread_time() - start)))
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        for _ in range(calls):
            function(x)
        best = min(best, (time.thread_time() - start) / calls)
    return best * 1e6


def main() -> None:
    torch.set_num_threads(1)
    runs = list(compilers())
    print(f"{'us a call':>12} " + " ".join(f"{name:>14}" for name, _ in runs))
    x = torch.randn(8)
    table = {}
    for name, make in cases():
        row = table[name] = []
        for _, compiler in runs:
            torch._dynamo.reset()
            with torch.no_grad():
                row.append(microseconds(compiler(make()), x))
        print(f"{name:>12} " + " ".join(f"{us:14.2f}" for us in row), flush=True)
    for kind in ("calls", "scales"):
        growth = (last / first - 1 for first, last in zip(table[f"{DEPTHS[0]} {kind}"], table[f"{DEPTHS[-1]} {kind}"]))
        print(f"{kind:>12} " + " ".join(f"{share:13.0%} " for share in growth))


if __name__ == "__main__":
    main()
