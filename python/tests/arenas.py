"""What compiled graphs keep for their intermediates."""

import gc

import measure
import oxytorch
import torch


def free_idle_arenas():
    """Those of other tests: they go when any graph goes."""
    oxytorch.compile(lambda x: x + 1)(torch.ones(2))
    gc.collect()
    assert measure.arena_mb("oxytorch") == 0
