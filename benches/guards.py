"""What it costs to look at 1,000 symbolic sizes: the time of a call that does nothing else.

    make bench BENCH=--guards

A function is given tensors with 1,000 sizes in all, each a variable of its own, reads them and returns; its trace is nothing but checks.
Microseconds of processor time a call, the best of many runs.
"""

from __future__ import annotations

import torch

import oxytorch
from overhead import microseconds

SIZES = 1000


def looks(tensors):
    for tensor in tensors:
        tensor.shape


def compares(tensors):
    """The same, with as many facts: each size is larger than that before it."""
    last = 0
    for tensor in tensors:
        for size in tensor.shape:
            if size <= last:
                return False
            last = size
    return True


def tensors(rank: int) -> list[torch.Tensor]:
    """Each of a shape of its own, without memory behind it."""
    shape = lambda first: [first + d for d in range(rank)]
    return [torch.empty(1).expand(shape(2 + rank * n)) for n in range(SIZES // rank)]


def cases():
    for rank in (1, 2, 4):
        yield f"{SIZES // rank} tensors of {rank}", looks, tensors(rank)
    yield f"{SIZES} comparisons", compares, tensors(2)


def main() -> None:
    torch.set_num_threads(1)
    for name, function, given in cases():
        compiled = oxytorch.compile(function, dynamic=True)
        assert compiled(given) == function(given)
        print(f"{name:>22} {microseconds(compiled, given):8.2f} us", flush=True)
        assert compiled.stats()["traced"] == 1, compiled.report()["recompiles"]


if __name__ == "__main__":
    main()
