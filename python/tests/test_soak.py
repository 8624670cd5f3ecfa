"""Many calls in changing surroundings, from many threads, across a fork, through an interrupt."""

import os
import signal
import threading
import time
import warnings

import oxytorch
import pytest
import soak
import torch
from torch import nn


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("seed", [0, 1])
def test_calls_in_changing_surroundings(seed):
    assert soak.run(400, seed) < 64


def net():
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)).eval()


def test_threads_that_call_at_once():
    plain = net()
    compiled = oxytorch.compile(plain)
    sizes, failures, start = (1, 2, 3, 4), [], threading.Barrier(6)

    def work(number):
        generator = torch.Generator().manual_seed(number)
        start.wait()
        try:
            with torch.no_grad():
                for n in range(40):
                    x = torch.randn(sizes[(n + number) % 4], 8, generator=generator)
                    torch.testing.assert_close(compiled(x), plain(x))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_flags_that_change_in_another_thread():
    plain = nn.Dropout(0.0)
    compiled = oxytorch.compile(plain)
    stop = threading.Event()

    def flip():
        while not stop.is_set():
            plain.train(not plain.training)
            time.sleep(0.0005)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        x = torch.randn(5)
        for _ in range(500):
            assert torch.equal(compiled(x), x)
    finally:
        stop.set()
        thread.join()


def test_a_fork_after_a_compile():
    plain = net()
    compiled = oxytorch.compile(plain)
    x = torch.randn(3, 8)
    compiled(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        # torch's own thread pool does not outlive a fork.
        torch.set_num_threads(1)
        same = torch.allclose(compiled(x), plain(x)) and torch.allclose(compiled(x[:2]), plain(x[:2]))
        os._exit(0 if same else 1)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert status == 0
    torch.testing.assert_close(compiled(x), plain(x))


@pytest.fixture
def interruptible():
    """A shell that starts a program in the background has it ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_call(interruptible):
    seen = []

    def f(x, stop):
        y = x + 1
        seen.append(1)
        if stop:
            signal.raise_signal(signal.SIGINT)
        seen.append(2)
        return y * 2

    compiled = oxytorch.compile(f)
    x = torch.ones(3)
    for stop in (True, False, True, False, False):
        seen.clear()
        if stop:
            with pytest.raises(KeyboardInterrupt):
                compiled(x, True)
            assert seen == [1]
        else:
            assert torch.equal(compiled(x, False), (x + 1) * 2) and seen == [1, 2]
