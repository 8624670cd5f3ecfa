"""What a call costs besides the work: eager, torch.compile and oxytorch side by side.

    make bench BENCH=--overhead

`x + 1` on eight numbers; modules of 1, 10 and 100 layers that do nothing but are called (what is paid for looking at them), with one
parameter each that is multiplied (and for handing it over), and of linear layers; and one layer that multiplies by as many rows of one parameter,
each in a line of the cache of its own: the same kernel without the parameters. Microseconds of processor time a call, the best of many runs: one thread computes, and other processes count little.
The last lines say by how much a call with 100 layers costs more than one with 1, and by how much above what the kernel takes more, which the rows tell:
for that the four take turns, since a process does not run equally fast all the time.
"""

from __future__ import annotations

import time

import torch
from torch import nn

DEPTHS = (1, 10, 100)
# Numbers in a line of the cache.
LINE = 16


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


class Rows(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.scales = nn.Parameter(torch.ones(depth, LINE))

    def forward(self, x):
        for row in range(len(self.scales)):
            x = x * self.scales[row, : len(x)]
        return x


class AddOne(nn.Module):
    def forward(self, x):
        return x + 1


def cases():
    yield "x + 1", lambda: lambda x: x + 1
    for name, layer in (("calls", Flag), ("scales", Scale), ("linears", lambda: nn.Linear(8, 8))):
        for depth in DEPTHS:
            yield f"{depth} {name}", lambda layer=layer, depth=depth: nn.Sequential(*(layer() for _ in range(depth)), AddOne()).eval()
    for depth in DEPTHS:
        yield f"{depth} rows", lambda depth=depth: nn.Sequential(Rows(depth), AddOne()).eval()


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
        print(f"{kind:>12} " + " ".join(f"{last / first - 1:13.0%} " for first, last in ends(table, kind)))
    # Eager has no such kernel.
    print(f"{'less kernel':>12} {'-':>13}  " + " ".join(f"{less_kernel(compiler, x):13.1%} " for _, compiler in runs[1:]))


def less_kernel(compiler, x, rounds: int = 60, calls: int = 3000) -> float:
    torch._dynamo.reset()
    names = [f"{depth} {kind}" for kind in ("scales", "rows") for depth in (DEPTHS[0], DEPTHS[-1])]
    made = dict(cases())
    best = dict.fromkeys(names, float("inf"))
    with torch.no_grad():
        functions = {name: compiler(made[name]()) for name in names}
        for name, function in list(functions.items()) * (rounds + 1):
            start = time.thread_time()
            for _ in range(calls):
                function(x)
            best[name] = min(best[name], (time.thread_time() - start) / calls)
    scale, scales, row, rows = best.values()
    return (scales - (rows - row)) / scale - 1


def ends(table, kind: str):
    """By compiler: with the fewest layers, and with the most."""
    return zip(table[f"{DEPTHS[0]} {kind}"], table[f"{DEPTHS[-1]} {kind}"])


if __name__ == "__main__":
    main()
