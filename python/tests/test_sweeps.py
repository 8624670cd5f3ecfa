"""The sweeps of `make sweep`, at fewer and smaller sizes: at most two compiles, results equal to eager's at every size."""

import pytest
import sweeps


@pytest.mark.parametrize("name", sweeps.SWEEPS)
def test_one_compile_many_sizes(name):
    outcome = sweeps.run(sweeps.SWEEPS[name], small=True)
    assert outcome.is_fine(), f"{name}: {outcome}"
