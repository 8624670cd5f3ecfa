"""Thousands of calls of compiled functions while everything around them changes: shapes, flags, lists, hooks, weights, modules.

    make soak                       # 10,000 calls
    make soak SOAK="--calls 2000 --seed 3"

Every result is compared with eager on the same objects, in float64, where rounding is no excuse: a stale guard is a wrong result.
Memory must be flat once every kind of call has been seen.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import oxytorch

OFFSET = 1.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("shift", torch.zeros(8))
        self.scales = [1.0, 0.5]
        self.gate = True

    def forward(self, x):
        y = self.linear(x) + self.shift
        for scale in self.scales:
            y = y * scale
        if self.gate:
            y = F.gelu(y)
        return y * 2 if self.training else y


class Net(nn.Module):
    def __init__(self, depth: int):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.kind = "sum"

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x.sum(-1) if self.kind == "sum" else x.amax(-1)


def shifted(x):
    return torch.relu(x) + OFFSET


def branching(x):
    return x * 2 if x.sum().item() > 0 else x - 1


class Soak:
    """The functions under test, and what may happen to them. Each has few states, so that all of them are soon compiled."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.nets: list = []
        self.scale, self.table = 2.0, [1.0, 2.0]

        def closure(x):
            return x * self.scale + self.table[0]

        self.functions = [(f, oxytorch.compile(f)) for f in (shifted, branching, closure)]
        for _ in range(3):
            self.new_net()
        self.changes = (
            [self.new_net, self.other_table, self.other_offset]
            + 2 * [self.other_mode, self.other_gate, self.other_scales, self.other_kind, self.other_data, self.other_parameter, self.hook]
            + 4 * [self.write, self.load]
        )

    def new_net(self):
        net = Net(self.random.choice([1, 2])).double()
        self.nets = self.nets[-3:] + [(net, oxytorch.compile(net, options={"recompile_limit": 24}))]

    def net(self) -> Net:
        return self.random.choice(self.nets)[0]

    def block(self) -> Block:
        return self.random.choice(self.net().blocks)

    def other_table(self):
        self.table[0] = self.random.choice([1.0, 3.0])
        self.scale = self.random.choice([2.0, 4.0])

    def other_offset(self):
        global OFFSET
        OFFSET = self.random.choice([1.0, -1.0])

    def other_mode(self):
        self.net().train(self.random.random() < 0.5)

    def other_gate(self):
        block = self.block()
        block.gate = not block.gate

    def other_scales(self):
        self.block().scales[:] = self.random.choice([[1.0, 0.5], [2.0]])

    def other_kind(self):
        self.net().kind = self.random.choice(["sum", "max"])

    def other_data(self):
        self.block().shift.data = torch.randn(8).double()

    def other_parameter(self):
        self.block().linear.weight = nn.Parameter(torch.randn(8, 8).double())

    def hook(self):
        handle = self.block().register_forward_hook(lambda module, args, out: out + 1)
        self.call()
        handle.remove()

    def write(self):
        self.block().linear.weight.mul_(0.9)

    def load(self):
        net = self.net()
        net.load_state_dict({name: torch.randn_like(value) for name, value in net.state_dict().items()})

    def call(self):
        plain, compiled = self.random.choice(self.functions + self.nets)
        x = torch.randn(self.random.choice([1, 3, 4]), 8).double()
        want, got = plain(x), compiled(x)
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9, msg=lambda text: f"{getattr(plain, '__name__', plain)}: {text}")

    def step(self):
        if self.random.random() < 0.2:
            self.random.choice(self.changes)()
        self.call()


def resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / 2**20


def run(calls: int, seed: int = 0, report=lambda text: None) -> float:
    """Raises at the first wrong result; returns by how many MB the process grew in the second half."""
    soak = Soak(seed)
    middle = 0.0
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(calls):
            if n == calls // 2:
                gc.collect()
                middle = resident_mb()
            if n % max(1, calls // 10) == 0:
                report(f"{n:6} calls, {resident_mb():.0f} MB")
            soak.step()
    gc.collect()
    return resident_mb() - middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    grown = run(given.calls, given.seed, print)
    print(f"{given.calls} calls equal to eager; {grown:+.1f} MB in the second half")
    sys.exit(grown > 16)


if __name__ == "__main__":
    main()
