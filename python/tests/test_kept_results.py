"""Memory of large results, which is kept for the next ones: nobody may notice but by the clock."""

import copy
import gc
import os
import pickle
import resource
import threading

import oxytorch
import pytest
import torch
from oxytorch import _oxytorch

MB = 1 << 20
# So many floats are 40 MB: more than the C library keeps.
MANY = 10 * MB


@pytest.fixture(autouse=True)
def nothing_kept():
    oxytorch.reset()
    yield
    oxytorch.reset()
    torch._dynamo.reset()
    gc.collect()
    assert _oxytorch.kept_result_bytes() == 0


def plus_one(x):
    return x + 1


def compiled_plus_one(**how):
    return torch.no_grad()(oxytorch.compile(plus_one, **how))


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_the_next_result_lies_where_the_last_lay():
    f, x = compiled_plus_one(), torch.zeros(MANY)
    first = f(x)
    place = first.data_ptr()
    del first
    for n in range(5):
        before = faults()
        result = f(x.fill_(n))
        assert result.data_ptr() == place
        assert faults() - before < MANY * 4 / 4096 / 2
        assert bool((result == n + 1).all())
        del result
        assert _oxytorch.kept_result_bytes() >= MANY * 4


@pytest.mark.parametrize("entry", ["capture", "backend"])
def test_results_that_somebody_holds_are_left_alone(entry):
    x = torch.zeros(MANY)
    with torch.no_grad():
        f = oxytorch.compile(plus_one) if entry == "capture" else torch.compile(plus_one, backend="oxytorch")
        del_me = f(x)
        del del_me
        assert _oxytorch.kept_result_bytes() >= MANY * 4
        held = [f(x + n) for n in range(3)]
        view, array = f(x + 3)[5:7], f(x + 4).numpy()
        for _ in range(3):
            f(x - 1)
    assert [bool((h == n + 1).all()) for n, h in enumerate(held)] == [True] * 3
    assert view.tolist() == [4, 4] and float(array.min()) == float(array.max()) == 5
    assert len({h.data_ptr() for h in held}) == 3


@pytest.mark.parametrize("again", [False, True], ids=["fresh", "kept"])
def test_a_storage_as_any(again):
    f, x = compiled_plus_one(), torch.zeros(MANY)
    make = lambda: f(x)
    if again:
        make()

    def grown():
        result = make()
        assert result.untyped_storage().resizable() and result.untyped_storage().nbytes() == MANY * 4
        result.resize_(MANY + 5)
        return bool((result[:MANY] == 1).all())

    def emptied():
        result = make()
        result.untyped_storage().resize_(0)
        return result.untyped_storage().nbytes() == 0

    def shared():
        result = make().share_memory_()
        place = result.data_ptr()
        return result.is_shared() and bool((result == 1).all()) and make().data_ptr() != place

    def lazily():
        result = make()
        clone = torch._lazy_clone(result)
        result += 1
        return bool((clone == 1).all()) and bool((result == 2).all())

    def other_memory():
        result, other = make(), torch.full((3,), 7.0)
        result.set_(other)
        return result.tolist() == [7, 7, 7]

    def swapped():
        result, other = make(), make()
        other.data = result
        del result
        make()
        return bool((other == 1).all())

    def copied():
        result = make()
        return bool((copy.deepcopy(result) == 1).all()) and bool((pickle.loads(pickle.dumps(result)) == 1).all())

    for check in (grown, emptied, shared, lazily, other_memory, swapped, copied):
        assert check(), check.__name__
        gc.collect()
    assert bool((make() == 1).all())


def test_more_is_never_kept_than_was_in_use_at_once():
    f, x = compiled_plus_one(dynamic=True), torch.zeros(3 * MANY)
    sizes = [MANY, 2 * MANY, 3 * MANY, MANY + MANY // 2, MANY + 1000]
    for size in sizes + sizes[::-1] + [2 * MANY] * 3:
        result = f(x[:size])
        assert bool((result == 1).all()) and result.untyped_storage().nbytes() == size * 4
        assert result.nbytes + _oxytorch.kept_result_bytes() <= 3 * MANY * 4 + MB
        del result


def test_of_many_results_that_were_held_one_is_kept():
    f, x = compiled_plus_one(), torch.zeros(MANY)
    held = [f(x) for _ in range(4)]
    held.clear()
    assert MANY * 4 <= _oxytorch.kept_result_bytes() < 2 * MANY * 4


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes(mode):
    f, x = compiled_plus_one(mode=mode), torch.zeros(MANY)
    f(x)
    assert _oxytorch.kept_result_bytes() >= MANY * 4


def test_a_profiler_sees_results_come_and_go():
    f, x = compiled_plus_one(), torch.zeros(MANY)
    f(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in range(3):
            result = f(x)
            del result
    sizes = [event.nbytes() for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    large = [size for size in sizes if abs(size) >= MANY * 4]
    assert len(large) == 6 and sum(large) == 0, sizes


def test_pages_behind_a_smaller_result_are_given_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    f, x = compiled_plus_one(dynamic=True), torch.zeros(2 * MANY)
    f(x[:MANY])
    before = resident()
    large = f(x)
    del large
    small = f(x[: MANY + 1000])
    assert resident() - before < MANY * 4 + 20 * MB
    del small


def test_nothing_is_kept_when_the_last_program_has_gone():
    f, x = compiled_plus_one(), torch.zeros(MANY)
    held = f(x)
    f(x)
    assert _oxytorch.kept_result_bytes() >= MANY * 4
    del f
    oxytorch.reset()
    gc.collect()
    assert _oxytorch.kept_result_bytes() == 0
    assert bool((held == 1).all())
    del held
    assert _oxytorch.kept_result_bytes() == 0


def test_a_training_step_keeps_nothing():
    x = torch.zeros(MANY, requires_grad=True)
    f = oxytorch.compile(lambda x: (x * 2).sin())
    for _ in range(2):
        f(x).sum().backward()
        assert bool((x.grad == 2).all())
        x.grad = None
        assert _oxytorch.kept_result_bytes() == 0


def test_small_results_are_the_c_librarys():
    f = compiled_plus_one()
    f(torch.zeros(MB))
    assert _oxytorch.kept_result_bytes() == 0


def test_threads():
    f, wrong = compiled_plus_one(), []
    f(torch.zeros(MANY))

    def work(n):
        x = torch.full((MANY,), float(n))
        for _ in range(5):
            if not bool((f(x) == n + 1).all()):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_a_child_of_a_fork():
    f, x = compiled_plus_one(), torch.zeros(MANY)
    held = f(x)
    f(x)
    child = os.fork()
    if child == 0:
        # Threads of OpenMP are not there in a child.
        torch.set_num_threads(1)
        right = bool((held == 1).all()) and bool((f(x + 1) == 2).all())
        del held
        os._exit(0 if right and bool((f(x) == 1).all()) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bool((held == 1).all()) and bool((f(x) == 1).all())
