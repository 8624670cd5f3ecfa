"""What is called, from where, and how often."""

import gc
import warnings

import oxytorch
import pytest
import torch
from capturing import check, x
from compare import assert_same
from oxytorch import _oxytorch
from test_capture_classes import Base
from test_capture_objects import FrozenKey
from test_capture_straight import nested_containers


def exit_swallows(t):
    class Quiet:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return True

    with Quiet():
        raise ValueError
    return t


def matching(t, kind):
    match kind:
        case [a, b]:
            return t + a + b
        case "x" | "y":
            return t * 2
        case int(n) if n > 3:
            return t - n
        case _:
            return t


def test_what_is_not_captured_runs_as_it_is():
    for function, args in ((exit_swallows, (x(),)), (matching, (x(), [1, 2])), (matching, (x(), 5))):
        captured = _oxytorch.capture(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                assert_same(captured(*args), function(*args))


def test_memory_stays_flat():
    captured = _oxytorch.capture(nested_containers)
    t = x()
    for _ in range(10):
        captured(t)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        captured(t)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "resnet50", "unet", "llama", "graphsage"])
def test_workload_in_one_graph(name):
    import zoo

    # Environments for other Pythons have torch alone.
    pytest.importorskip({"resnet50": "torchvision", "unet": "torch", "graphsage": "torch_geometric"}.get(name, "transformers"))
    workload = zoo.build(name, sizes=zoo.TEST_SIZES)
    want = workload.run(workload.model)
    captured = _oxytorch.capture(workload.model, fullgraph=True)
    exact = zoo.build(name, torch.float64, zoo.TEST_SIZES)
    for _ in range(2):
        assert_same(workload.run(captured), want, lambda: exact.run(exact.model))
    stats = captured.stats()
    assert (stats["traced"], stats["segments"], stats["breaks"]) == (1, 1, [])


def test_an_interrupt_leaves_no_trace():
    strikes = [1]

    def f(t):
        if strikes and strikes.pop():
            raise KeyboardInterrupt
        return t + 1

    captured = _oxytorch.capture(f)
    with pytest.raises(KeyboardInterrupt):
        captured(x())
    t = x()
    assert_same(captured(t), t + 1)


def test_odd_callables():
    with pytest.raises(TypeError):
        _oxytorch.capture(3)
    t = x()
    assert_same(_oxytorch.capture(torch.sin)(t), t.sin())
    assert _oxytorch.capture(len)([1, 2]) == 2
    assert list(_oxytorch.capture(lambda n: (k for k in range(n)))(3)) == [0, 1, 2]
    assert isinstance(_oxytorch.capture(Base)(t), Base)

    def generator_function(u):
        yield u + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(list(_oxytorch.capture(generator_function)(t)), [t + 1])

    def recursive(u, n):
        return u if n == 0 else recursive(u + 1, n - 1)

    assert_same(_oxytorch.capture(recursive)(t, 5), recursive(t, 5))
    made = {}
    exec("def g(u):\n    return u * 2", made)
    assert_same(_oxytorch.capture(made["g"])(t), t * 2)


def test_attributes_that_a_function_gets_later():
    def make():
        def counts(a):
            counts.n = getattr(counts, "n", 0) + 1
            return a * counts.n

        return counts

    plain, function = make(), make()
    captured = _oxytorch.capture(function)
    t = x()
    for _ in range(4):
        assert_same(captured(t), plain(t))
        assert function.n == plain.n


def test_calls_that_cpython_refuses():
    def inner(p, /, q=1, **options):
        return p, q, options

    def one_or_two(p, q=1):
        return p, q

    check(lambda a: inner(a, **{1: a}), (x(),))
    check(lambda a: one_or_two(1, 2, 3), (x(),))
    check(lambda a: (lambda p, /: p)(p=1), (x(),))
    check(lambda a: inner(*3), (x(),))
    check(lambda a: inner(a, **{"k": 1}, **{"k": 2}), (x(),))
    check(lambda a: FrozenKey(), (x(),))

    def unpacks(a):
        p, q = 3
        return p

    check(unpacks, (x(),))


@pytest.mark.parametrize("given", [5, None, [1], "a"])
@pytest.mark.parametrize("function", [lambda x, given: {**given}, lambda x, given: dict(**given), lambda x, given: check(**given)])
def test_what_is_no_mapping_is_refused_in_cpython_s_words(function, given):
    captured = oxytorch.compile(function)
    for _ in range(2):
        with pytest.raises(TypeError) as want:
            function(x, given)
        with pytest.raises(TypeError) as got:
            captured(x, given)
        assert str(got.value) == str(want.value)
