"""The sweeps of `make sweep`, at fewer and smaller sizes: at most two compiles, results equal to eager's at every size."""

import pytest
import sweeps
from arenas import free_idle_arenas


@pytest.mark.parametrize("name", sweeps.SWEEPS)
def test_one_compile_many_sizes(name):
    outcome = sweeps.run(sweeps.SWEEPS[name], small=True)
    assert outcome.is_fine(), f"{name}: {outcome}"


@pytest.mark.parametrize("name", ["llama decoding", "resnet", "short batch"])
def test_a_call_holds_no_more_than_eagers(name):
    """The arena of other sizes, or the parts of it that are not in use, lay beside what the largest call makes."""
    free_idle_arenas()
    outcome = sweeps.run(sweeps.SWEEPS[name], memory=True)
    assert outcome.call_mb <= outcome.eager_mb, f"{name}: {outcome}"
