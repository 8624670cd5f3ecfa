"""A process that may have no more memory: torch's own exception, which programs catch to go on with less, and afterwards all is well."""

import os
import subprocess
import sys

import pytest

STEPS = """
import resource, torch, oxytorch

def model(x, w):
    return torch.sin(x * w).sum()

def limit(more):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY) if more else (resource.RLIM_INFINITY,) * 2)

def told(error):
    return type(error).__name__, "can't allocate memory" in str(error)

torch.set_num_threads(1)
x, w = torch.randn(1 << 25), torch.randn(1 << 25, requires_grad=True)
fast = oxytorch.compile(model)
errors = {}
for name, function in (("eager", model), ("ours", fast)):
    function(x, w).backward()
    w.grad = None
    loss = function(x, w)
    # Less than the gradient takes.
    limit(64 << 20)
    try:
        loss.backward()
    except Exception as error:
        errors[name] = told(error)
    limit(None)
    w.grad = None
assert errors["ours"] == errors["eager"] == ("RuntimeError", True), errors
fast(x, w).backward()
torch.testing.assert_close(w.grad, torch.cos(x * w.detach()) * x)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts a process's addresses")
def test_a_backward_pass_that_has_no_room():
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", STEPS], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
