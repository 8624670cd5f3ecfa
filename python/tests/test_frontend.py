"""The FX front end: modes and options, warnings, aliasing, mutation, strides, symbolic sizes, errors."""

import re
import threading
import warnings

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from checking import check, check_native
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

MODES = ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


# Modes, options, errors.


@pytest.mark.parametrize("mode", MODES)
def test_the_four_modes(mode):
    f = torch.compile(lambda x: x.relu() + 1, backend="oxytorch", mode=mode)
    x = torch.randn(5)
    compare.assert_same(f(x), x.relu() + 1)
    compare.assert_same(oxytorch.compile(lambda x: x * 2, mode=mode)(x), x * 2)


def test_unknown_mode_lists_the_modes():
    f = torch.compile(lambda x: x + 1, backend="oxytorch", mode="max-speed")
    with pytest.raises(Exception, match="unknown mode") as error:
        f(torch.randn(3))
    assert all(mode in str(error.value) for mode in MODES)
    with pytest.raises(ValueError, match="unknown mode"):
        oxytorch.compile(lambda x: x, mode="max-speed")


def test_unknown_option_names_the_nearest():
    f = torch.compile(lambda x: x + 1, backend="oxytorch", options={"freezzing": 1})
    with pytest.raises(Exception, match='did you mean "freezing"'):
        f(torch.randn(3))
    with pytest.raises(ValueError, match='did you mean "freezing"'):
        oxytorch.compile(lambda x: x, options={"freezzing": 1})


def test_option_of_the_wrong_type():
    with pytest.raises(ValueError, match="True or False"):
        oxytorch.compile(lambda x: x, options={"freezing": "yes"})


def test_compile_as_decorator_and_disabled():
    @oxytorch.compile
    def f(x):
        return x + 1

    @oxytorch.compile(dynamic=False)
    def g(x):
        return x + 2

    x = torch.randn(3)
    compare.assert_same((f(x), g(x)), (x + 1, x + 2))
    assert oxytorch.compile(f, disable=True)(x).equal(x + 1)


def test_debug_dumps(tmp_path):
    f = oxytorch.compile(lambda x: (x * 2).sum(-1), options={"debug_dir": str(tmp_path)})
    f(torch.randn(4, 8))
    names = [p.name for p in tmp_path.glob("graph-*/*")]
    for wanted in ("1-graph.txt", "2-optimised.txt", "3-plan.txt"):
        assert wanted in names
    assert any(n.startswith("4-kernel") for n in names) and any(n.endswith(".ll") for n in names)


def test_debug_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    f = oxytorch.compile(lambda x: x * 3, options={"debug_dir": str(tmp_path / "file" / "inside")})
    with pytest.warns(UserWarning, match="cannot write"):
        compare.assert_same(f(torch.ones(3)), torch.full((3,), 3.0))


# What falls back, and how it says so.


def test_grad_mode_switched_on_inside():
    weight = torch.randn(3, requires_grad=True)

    def f(x):
        with torch.enable_grad():
            return x * weight

    with torch.no_grad():
        out = torch.compile(f, backend="oxytorch")(torch.randn(3))
    assert out.requires_grad
    out.sum().backward()
    assert weight.grad is not None


def test_grad_mode_without_parameters_is_compiled():
    f = torch.compile(lambda x: x * 2 + 1, backend="oxytorch")
    x = torch.randn(3)
    compare.assert_same(f(x), x * 2 + 1)
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_inference_mode():
    f = torch.compile(lambda x: x.sin() * 2, backend="oxytorch")
    x = torch.randn(3)
    with torch.inference_mode():
        out = f(x)
        assert out.is_inference()
    compare.assert_same(out.clone(), x.sin() * 2)


def test_an_op_that_nobody_knows_is_done_by_python():
    @torch.library.custom_op("oxytorch_tests::triple", mutates_args=())
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @triple.register_fake
    def _(x):
        return torch.empty_like(x)

    x = torch.randn(4)
    check(lambda x: torch.ops.oxytorch_tests.triple(x + 1) * 2, x)


def test_a_custom_op_that_writes_its_argument():
    @torch.library.custom_op("oxytorch_tests::bump", mutates_args=("x",))
    def bump(x: torch.Tensor) -> None:
        x.add_(1)

    @bump.register_fake
    def _(x):
        return None

    def f(x):
        y = x * 2
        torch.ops.oxytorch_tests.bump(y)
        torch.ops.oxytorch_tests.bump(x)
        return y + x

    check(f, torch.randn(4))


# Aliasing.


def test_outputs_that_are_inputs():
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    f = torch.compile(lambda x, y: (x, x + y, y, x), backend="oxytorch")
    a, b, c, d = f(x, y)
    assert a is x and c is y and d is x
    compare.assert_same(b, x + y)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:],
        lambda x: x.T,
        lambda x: x.view(-1),
        lambda x: x[:, ::2],
        lambda x: x.unsqueeze(0).expand(2, 4, 6),
        lambda x: x.diagonal(),
        lambda x: x.as_strided((2, 2), (1, 3), 5),
        lambda x: x.reshape(2, 12),
        lambda x: x.contiguous(),
        lambda x: x.to(torch.float32),
        lambda x: x.detach(),
        lambda x: x.unfold(1, 3, 2),
    ],
    ids="slice t view step expand diagonal as_strided reshape contiguous to detach unfold".split(),
)
def test_a_view_of_an_input_shares_its_memory(view):
    x = torch.randn(4, 6)
    out, extra = torch.compile(lambda x: (view(x), x + 1), backend="oxytorch")(x)
    want = view(x)
    compare.assert_same(out, want)
    assert out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert out.storage_offset() == want.storage_offset()
    x.zero_()
    assert not out.any() and extra.any()


def test_a_copy_does_not_share_memory():
    x = torch.randn(4, 6)
    for copy in (torch.clone, lambda x: x.T.reshape(-1), lambda x: x.T.contiguous(), lambda x: x.to(torch.float64)):
        torch._dynamo.reset()
        out = torch.compile(copy, backend="oxytorch")(x)
        assert out.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
        compare.assert_same(out, copy(x))


def test_outputs_that_share_memory_with_one_another():
    def f(x):
        y = x + 1
        return y, y[1:], y.T

    y, tail, turned = torch.compile(f, backend="oxytorch")(torch.randn(3, 4))
    y.zero_()
    assert not tail.any() and not turned.any()


# Mutation.


def test_in_place_operations_reach_the_caller():
    def f(x, y):
        x.add_(1)
        y.mul_(x)
        x[0] = 7
        return x.sum(), y * 2

    check_native(f, torch.randn(3, 4), torch.randn(3, 4))


def test_in_place_on_a_view_writes_the_base():
    def f(x):
        x[1:].mul_(2)
        x.view(-1)[::3].fill_(5)
        x.T[0].copy_(torch.arange(4.0))
        return x.sum(0)

    check_native(f, torch.randn(4, 6))


def test_in_place_on_an_intermediate():
    def f(x):
        y = x + 1
        v = y[:, 1:]
        y.relu_()
        v += 3
        return y, v

    check_native(f, torch.randn(4, 6))


def test_augmented_index_assignment():
    def f(y, x):
        y[x] += y[x]
        return y

    check_native(f, torch.randn(6), torch.tensor([1, 3, 1]))


def test_in_place_operations_with_symbolic_sizes():
    def f(x):
        x[:, 1:].mul_(2)
        x.add_(1)
        return x.sum(-1)

    check_native(f, torch.randn(3, 4, 5), dynamic=True)
    check_native(f, torch.randn(3, 5, 4).transpose(1, 2), dynamic=True)


def test_batch_norm_updates_its_statistics():
    def run(wrap):
        torch.manual_seed(0)
        model = torch.nn.BatchNorm2d(3)
        with torch.no_grad():
            out = wrap(model)(torch.randn(2, 3, 4, 4))
        return out, dict(model.named_buffers())

    compare.assert_same(run(lambda m: torch.compile(m, backend="oxytorch")), run(lambda m: m))


def test_written_input_that_overlaps_another():
    def f(x, y):
        x.add_(1)
        return y * 2

    compiled = torch.compile(f, backend="oxytorch")
    for separate in (True, False):
        base, other = torch.arange(8.0), torch.arange(8.0)
        want = f(base[:6], (other if separate else base)[2:])
        base2, other2 = torch.arange(8.0), torch.arange(8.0)
        got = compiled(base2[:6], (other2 if separate else base2)[2:])
        compare.assert_same((got, base2), (want, base))


# Strides and memory.


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x.transpose(1, 2) * 2,
        lambda x: (x.transpose(1, 3) * x.transpose(1, 3)).relu(),
        lambda x: x.sum(1, keepdim=True),
        lambda x: torch.cat([x, x], 1),
        lambda x: F.softmax(x, 1),
        lambda x: x.permute(3, 1, 0, 2).exp(),
        lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3)),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.interpolate(x, scale_factor=2),
    ],
    ids="add transpose chain sum cat softmax permute conv pool interpolate".split(),
)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "sliced", "expanded"])
def test_strides_are_those_of_eager(function, layout):
    x = torch.randn(2, 3, 6, 8)
    if layout == "channels_last":
        x = x.to(memory_format=torch.channels_last)
    elif layout == "sliced":
        x = torch.randn(2, 3, 12, 16)[:, :, ::2, 1::2]
    elif layout == "expanded":
        x = torch.randn(2, 3, 1, 8).expand(2, 3, 6, 8)
    check(function, x)


def test_input_with_a_storage_offset_that_is_not_aligned():
    base = torch.randn(100)
    for offset in range(5):
        torch._dynamo.reset()
        check_native(lambda x: x * 2 + 1, base[offset : offset + 64])


def test_inputs_with_lazy_bits_run_as_eager():
    x = torch.randn(4, dtype=torch.complex64)
    f = torch.compile(lambda x: x * 2.0, backend="oxytorch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare.assert_same(f(x.conj().imag), x.conj().imag * 2.0)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1)])
def test_small_shapes(shape):
    check_native(lambda x: (x * 2 + 1).relu(), torch.randn(shape))
    check_native(lambda x: x.sum(), torch.randn(shape))


def test_results_do_not_share_memory_between_calls():
    f = torch.compile(lambda x: x * 2, backend="oxytorch")
    x = torch.ones(1000)
    first = f(x)
    kept = first.clone()
    f(x * 5)
    assert first.equal(kept)


# Symbolic sizes.


def test_symbolic_sizes():
    def f(x, y):
        z = (x[:, 1:] + y.size(0)).relu()
        return z.reshape(-1), z.sum(0), x.shape[0] + 1, torch.arange(x.shape[0])

    compiled = torch.compile(f, backend="oxytorch", fullgraph=True, dynamic=True)
    for n, m in [(4, 7), (5, 7), (33, 3), (2, 129)]:
        x, y = torch.randn(n, m), torch.randn(n + m)
        compare.assert_same(compiled(x, y), f(x, y))
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_int_argument_that_changes():
    def f(x, n):
        return x * n + n

    compiled = torch.compile(f, backend="oxytorch", fullgraph=True)
    x = torch.randn(5)
    for n in (2, 3, 7, 1000, -4):
        compare.assert_same(compiled(x, n), f(x, n))


def test_batch_size_that_changes():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)).eval()
    compiled = torch.compile(model, backend="oxytorch", dynamic=True)
    with torch.no_grad():
        for n in (2, 3, 64, 5):
            x = torch.randn(n, 8)
            compare.assert_same(compiled(x), model(x))
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_float_argument_that_changes():
    compiled = torch.compile(lambda x, a: x * a, backend="oxytorch", dynamic=True)
    x = torch.randn(5)
    for a in (0.5, 0.25, -3.0):
        compare.assert_same(compiled(x, a), x * a)
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_a_size_that_is_right_only_at_the_example_is_guarded():
    """torch is made to say 2*s - 8 where a relu has s, which is the same for the example's 8 only."""
    environment = ShapeEnv()
    fakes = FakeTensorMode(shape_env=environment)
    x = fakes.from_tensor(torch.randn(8), symbolic_context=StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC]))
    size = x.shape[0]

    def graph(claimed):
        graph = torch.fx.Graph()
        length, placeholder = graph.placeholder("s"), graph.placeholder("x")
        length.meta["example_value"], placeholder.meta["example_value"] = size, x
        relu = graph.call_function(torch.relu, (placeholder,))
        with fakes:
            relu.meta["example_value"] = torch.empty(claimed)
        graph.output((relu,))
        return torch.fx.GraphModule(torch.nn.Module(), graph)

    oxytorch._oxytorch.compile_fx(graph(size + size - size), [], None, None)
    assert not environment.guards
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oxytorch._oxytorch.compile_fx(graph(size * 2 - 8), [], None, None)
    assert not all(guard.expr.subs({size.node.expr: 9}) for guard in environment.guards)


# Frozen weights.


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.register_buffer("shift", torch.randn(4, 1, 1))

    def forward(self, x):
        return self.bn(self.conv(x)) + self.shift.sin()


def frozen_inputs(function, *args, folder):
    f = torch.compile(function, backend="oxytorch", options={"freezing": True, "debug_dir": str(folder)})
    with torch.no_grad():
        f(*args)
    (text,) = folder.glob("graph-*/1-graph.txt")
    header = text.read_text().splitlines()[0]
    return f, {name for name, is_frozen in re.findall(r'"(\w+)"( frozen)?', header) if is_frozen}


def test_weights_and_buffers_of_modules_are_frozen(tmp_path):
    model = Normed().eval()
    _, frozen = frozen_inputs(model, torch.randn(1, 3, 8, 8), folder=tmp_path)
    owned = ["weight", "bias"] * 2 + ["running_mean", "running_var", "shift"]
    assert sorted(name.strip("_").rsplit("parameters_")[-1].rsplit("buffers_")[-1] for name in frozen) == sorted(owned)


def test_arguments_are_never_frozen(tmp_path):
    def scaled(x, own_buffers_mean_, weight):
        return F.conv2d(x, weight * own_buffers_mean_)

    x, scale, weight = torch.randn(1, 3, 8, 8), torch.randn(4, 1, 1, 1), torch.nn.Parameter(torch.randn(4, 3, 3, 3))
    f, frozen = frozen_inputs(scaled, x, scale, weight, folder=tmp_path)
    assert not frozen
    with torch.no_grad():
        scale.mul_(3)
        weight.add_(1)
        compare.assert_same(f(x, scale, weight), scaled(x, scale, weight))


# Errors at run time.


def test_what_was_done_is_not_done_again_when_a_later_call_fails():
    calls = []

    @torch.library.custom_op("oxytorch_tests::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x + 0

    @counted.register_fake
    def _(x):
        return torch.empty_like(x)

    def f(x):
        return torch.linalg.cholesky(torch.ops.oxytorch_tests.counted(x))

    compiled = torch.compile(f, backend="oxytorch", fullgraph=True)
    compare.assert_same(compiled(torch.eye(3)), f(torch.eye(3)))
    calls.clear()
    with pytest.raises(RuntimeError):
        compiled(-torch.eye(3))
    assert len(calls) == 1


def test_random_numbers_are_drawn_once_when_a_later_call_fails():
    def f(x):
        return torch.linalg.cholesky(x * torch.rand(()))

    compiled = torch.compile(f, backend="oxytorch", fullgraph=True, options={"fallback_random": True})
    compiled(torch.eye(3))
    states = []
    for function in (compiled, f):
        torch.manual_seed(5)
        with pytest.raises(RuntimeError):
            function(-torch.eye(3))
        states.append(torch.get_rng_state())
    assert states[0].equal(states[1])


def test_a_failed_call_is_eagers_if_nothing_was_done():
    def f(x, y):
        y.add_(1)
        return x.sort(), torch.linalg.cholesky(x * 1)

    compiled = torch.compile(f, backend="oxytorch", fullgraph=True)
    compiled(torch.eye(3), torch.zeros(2))
    y = torch.zeros(2)
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(-torch.eye(3), y)
    assert y.tolist() == [1, 1]


def test_index_out_of_range_names_the_line():
    table = torch.randn(10, 4)
    f = torch.compile(lambda t, i: F.embedding(i, t) * 2, backend="oxytorch")
    compare.assert_same(f(table, torch.tensor([1, 9])), F.embedding(torch.tensor([1, 9]), table) * 2)
    for bad in (10, -1, 1 << 40):
        with pytest.raises(IndexError, match="out of (bounds|range)") as caught:
            f(table, torch.tensor([1, bad]))
        last = caught.traceback[-1]
        assert (str(last.path), last.lineno) == (__file__, test_index_out_of_range_names_the_line.__code__.co_firstlineno + 1)
    compare.assert_same(f(table, torch.tensor([3, 4])), F.embedding(torch.tensor([3, 4]), table) * 2)


def test_integer_division_by_zero():
    f = torch.compile(lambda a, b: a // b, backend="oxytorch")
    compare.assert_same(f(torch.tensor([7, -7]), torch.tensor([2, 2])), torch.tensor([3, -4]))
    with pytest.raises((ZeroDivisionError, RuntimeError), match="(?i)zero"):
        f(torch.tensor([7, -7]), torch.tensor([2, 0]))


def test_shape_mismatch_raises():
    f = torch.compile(lambda a, b: a @ b, backend="oxytorch")
    with pytest.raises(Exception):
        f(torch.randn(3, 4), torch.randn(5, 6))


# Randomness and threads.


def test_random_numbers_follow_the_seed():
    def f(x):
        return F.dropout(x, 0.5), torch.rand(3), torch.randn_like(x)

    compiled = torch.compile(f, backend="oxytorch", options={"fallback_random": True})
    x = torch.ones(50)
    torch.manual_seed(3)
    want = f(x)
    for _ in range(2):
        torch.manual_seed(3)
        compare.assert_same(compiled(x), want)


def test_many_threads_including_the_first_call():
    f = torch.compile(lambda x: F.softmax(x * 2, -1).sum(0), backend="oxytorch")
    inputs = [torch.randn(16, 32) for _ in range(8)]
    want = [F.softmax(x * 2, -1).sum(0) for x in inputs]
    got, errors = {}, []

    def work(n):
        try:
            for _ in range(20):
                got[n] = f(inputs[n])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    for n in range(8):
        compare.assert_same(got[n], want[n])


def test_returned_structure():
    def f(x):
        return {"a": x + 1, "b": [x * 2, None, 3], "c": (x.shape, torch.max(x, 1))}

    x = torch.randn(3, 4)
    got = torch.compile(f, backend="oxytorch")(x)
    want = f(x)
    assert got["c"][1].values.equal(want["c"][1].values)
    compare.assert_same(got, want)


@pytest.mark.filterwarnings("error:oxytorch")
def test_an_operator_that_only_torchscript_has_is_not_dispatched():
    check(lambda t: torch.as_tensor(t > 0, dtype=t.dtype) * 2, torch.randn(8))


@pytest.mark.parametrize("write", [lambda i, b: i.copy_(b * 2), lambda i, b: i.zero_(), lambda i, b: torch.mul(b, 2, out=i), lambda i, b: i.add_(1)])
def test_tensors_of_inference_mode_are_not_written_outside_of_it(write):
    def function(i, b):
        write(i, b)

    compiled = oxytorch.compile(function)
    with torch.no_grad():
        compiled(torch.zeros(3), torch.ones(3))
        for called in (function, compiled, compiled):
            with torch.inference_mode():
                made = torch.zeros(3)
            with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
                called(made, torch.ones(3))
    with torch.inference_mode():
        compiled(made, torch.ones(3))
