"""Derivatives that compiled gradients do not give by themselves: second ones, and forward ones."""

import warnings

import compare
import oxytorch
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn as nn
import torch.nn.functional as F
from training import DOORS

both = pytest.mark.parametrize("door", DOORS)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def t_of(seed, *shape):
    return torch.randn(*(shape or (4, 8)), generator=torch.Generator().manual_seed(seed))


@both
def test_a_second_derivative_of_a_call_without_grad_of_which_a_part_has_it(door):
    def f(t):
        constant = t * t
        with torch.enable_grad():
            return (constant * t).sin()

    def derivatives(called):
        t = t_of(1).requires_grad_()
        with torch.no_grad():
            result = called(t)
        (first,) = torch.autograd.grad(result.sum(), t, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), t)
        return first.detach(), second

    compare.assert_same(derivatives(DOORS[door](f)), derivatives(f))


@both
def test_a_second_derivative_under_autocast(door):
    torch.manual_seed(0)
    linear = nn.Linear(8, 8)

    def f(t):
        return linear(t).tanh()

    def derivatives(called):
        linear.zero_grad()
        t = t_of(1).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            result = called(t)
        (first,) = torch.autograd.grad(result.float().sum(), t, create_graph=True)
        first.square().sum().backward()
        return first.detach(), linear.weight.grad.clone()

    for ours, theirs in zip(derivatives(DOORS[door](f)), derivatives(f)):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("failing", ["enter", "exit"])
def test_regions_of_autocast_are_left_when_one_of_them_fails(failing, monkeypatch):
    entered, unraisable = [], []

    class Failing(torch.autocast):
        def __enter__(self):
            if (failing, self.device) == ("enter", "cuda"):
                raise RuntimeError("this region fails")
            entered.append(self.device)
            return super().__enter__()

        def __exit__(self, *args):
            super().__exit__(*args)
            entered.remove(self.device)
            if (failing, self.device) == ("exit", "cuda"):
                raise RuntimeError("this region fails")

    t = t_of(1).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        result = DOORS["capture"](lambda t: (t @ t.T).tanh())(t)
    monkeypatch.setattr(torch, "autocast", Failing)
    monkeypatch.setattr("sys.unraisablehook", lambda error: unraisable.append(str(error.exc_value)))
    derive = lambda: torch.autograd.grad(result.float().sum(), t, create_graph=True)
    if failing == "enter":
        with pytest.raises(RuntimeError, match="this region fails"):
            derive()
    else:
        derive()
        assert unraisable == ["this region fails"]
    assert not entered


@both
def test_tensors_of_inference_mode_beside_one_that_requires_grad(door):
    with torch.inference_mode():
        constant = t_of(2)

    def derivatives(called):
        t = t_of(1).requires_grad_()
        (first,) = torch.autograd.grad((called(t, constant)).sum(), t, create_graph=True)
        first.sum().backward()
        return first.detach(), t.grad

    def f(t, c):
        return t.sin() + c

    compare.assert_same(derivatives(DOORS[door](f)), derivatives(f))


@pytest.mark.parametrize("outside", [False, True])
def test_nothing_has_a_history_in_inference_mode_whatever_the_grad_mode(outside):
    def f(t):
        with torch.enable_grad():
            return t * 2

    called, t = oxytorch.compile(f), t_of(1).requires_grad_()
    for _ in range(3):
        with torch.inference_mode(), torch.set_grad_enabled(outside):
            got = called(t)
        assert got.is_inference() and got.is_leaf and not got.requires_grad


@both
@pytest.mark.parametrize("trained", [False, True])
def test_forward_derivatives(door, trained):
    weight = nn.Parameter(t_of(2), requires_grad=trained)

    def f(t):
        return t.sin() * weight

    called, t = DOORS[door](f), t_of(1)
    called(t)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(t, t_of(3))
        ours, theirs = (forward_ad.unpack_dual(function(dual)).tangent for function in (called, f))
        assert ours is not None
        compare.assert_same(ours.detach(), theirs.detach())
    compare.assert_same(called(t).detach(), f(t).detach())


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(t_of(2, 8, 8))

    def forward(self, t):
        return (t @ self.weight).tanh()


def test_a_second_derivative_of_parameters_that_are_constants_of_the_graph_is_refused():
    model = Product()
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        result = DOORS["dynamo"](model)(t_of(1).requires_grad_())
    with pytest.raises(RuntimeError, match="second derivative"):
        result.sum().backward(create_graph=True)
    result.sum().backward()
    assert model.weight.grad is not None


def drawn_alike(function, *args, **options):
    """Value, gradient and second derivative of the compiled function; its random numbers are eager's in none of them, but the same in all."""
    x = t_of(1, 40).exp().requires_grad_()
    y = DOORS["capture"](function, **options)(x, *args)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    return x.detach(), y.detach(), first.detach(), second.detach(), third


@pytest.mark.parametrize("options", [{}, {"fallback_random": True}], ids=["ours", "eagers"])
def test_derivatives_of_random_numbers_have_one_mask(options):
    """The exponential function is its own derivative."""
    x, y, first, second, third = drawn_alike(lambda x: F.dropout(x.exp(), 0.5), options=options)
    compare.assert_same([first, second, third], [y, y, y])
    assert 0 < int((y == 0).sum()) < 40


def test_derivatives_stop_where_the_program_stops_them():
    """In the second derivative as in the first; of what is detached the value counts."""
    x, y, first, second, third = drawn_alike(lambda x: F.dropout(x.detach() * x**3, 0.5))
    noise = y / x**4
    torch.testing.assert_close([first, second, third], [noise * 3 * x**3, noise * 6 * x**2, noise * 6 * x])


def convolved(t):
    return F.conv1d(t.view(1, 2, 20).sin(), t[:12].view(2, 2, 3).cos(), padding=1).view(40)


@pytest.mark.parametrize(
    "function",
    [torch.tanh, F.gelu, lambda t: F.softmax(t, 0), lambda t: F.layer_norm(t, (40,)), lambda t: F.log_softmax(t, 0).sin(), F.elu, torch.sqrt, convolved],
    ids=["tanh", "gelu", "softmax", "layer_norm", "log_softmax", "elu", "sqrt", "convolution"],
)
def test_second_derivatives_of_ours_are_eagers(function):
    """With a mask that drops hardly anything: then eager's derivatives are to be compared."""
    g = lambda t: function(t) * t + F.dropout(torch.ones_like(t), 1e-12)
    x = t_of(2, 40).double().exp().requires_grad_()

    def derivatives(called):
        y = called(x)
        (first,) = torch.autograd.grad(y, x, t_of(3, 40).double(), create_graph=True)
        (second,) = torch.autograd.grad(first, x, t_of(4, 40).double())
        return first.detach(), second

    compare.assert_same(derivatives(DOORS["capture"](g)), derivatives(g))


def test_a_gradient_penalty_of_a_model_that_drops():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 1))
    called = DOORS["capture"](model)
    x = t_of(1).requires_grad_()

    def penalty(seed, weight):
        torch.manual_seed(seed)
        (gradient,) = torch.autograd.grad(called(x).sum(), x, create_graph=True)
        return gradient.square().sum()

    weight = model[0].weight
    (slope,) = torch.autograd.grad(penalty(5, weight), weight)
    direction = torch.randn_like(weight)
    at = []
    for step in (1e-3, -1e-3):
        with torch.no_grad():
            weight.add_(direction, alpha=step)
        at.append(penalty(5, weight).detach().double())
        with torch.no_grad():
            weight.sub_(direction, alpha=step)
    torch.testing.assert_close((slope * direction).sum().double(), (at[0] - at[1]) / 2e-3, rtol=2e-2, atol=1e-4)


def after_the_call(change):
    """The first gradient, as something to differentiate, of random numbers of ours: with `change` made to the input behind the call."""
    t = t_of(1, 8, 8).requires_grad_()
    y = DOORS["capture"](lambda t: F.dropout(torch.cumsum(t, 0).softmax(-1), 0.5))(t)
    with torch.no_grad():
        change(t)
    return torch.autograd.grad(y.square().sum(), t, create_graph=True)


def test_an_input_changed_in_place_before_a_second_derivative():
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        after_the_call(lambda t: t.mul_(3))


def test_a_second_derivative_that_cannot_be_computed_is_a_runtime_error():
    """To another tensor in its place the version says nothing; the graph does not fit it."""

    def change(t):
        t.data = t_of(1, 8, 4)

    with pytest.raises(RuntimeError, match="backward pass failed: input 0"):
        after_the_call(change)


def test_gradients_hang_on_those_inputs_that_they_depend_on():
    """And on no other: behind those the graph may be gone."""

    def f(z, s):
        return F.dropout(z, 0.5) * 2 + s.sin()

    for called in (f, DOORS["capture"](f)):
        x, s = t_of(1, 6).requires_grad_(), t_of(2, 6).requires_grad_()
        z = x.exp()
        of_z, of_s = torch.autograd.grad(called(z, s).sum(), (z, s), create_graph=True)
        assert (of_z.requires_grad, of_s.requires_grad) == (False, True)
        # Lets go of the graph behind z.
        z.sum().backward()
        of_s.sum().backward()
        compare.assert_same(s.grad, -s.detach().sin())


def without_grad(y):
    with torch.no_grad():
        return y.exp()


BESIDE = {
    "detached": lambda x, y, i: (x**3 * y.detach()).sum(),
    "only detached": lambda x, y, i: (x * y.detach()).sum(),
    "compared": lambda x, y, i: torch.where(y > 0, x**3, x.sin()).sum(),
    "an index": lambda x, y, i: (x[i] ** 3).gather(0, y.argmax(0, keepdim=True) % 3).sum(),
    "without grad": lambda x, y, i: (x**3 * without_grad(y)).sum(),
    "its sizes": lambda x, y, i: (x**3 + torch.zeros_like(y)).sum(),
    "of some results": lambda x, y, i: ((x**3).sum(), (y.detach() * x**2).sum(), (y**4).sum(), y > 0),
    "of none of several": lambda x, y, i: ((x**3 * y.detach()).sum(), x.detach() * x**2),
    "with random numbers": lambda x, y, i: F.dropout(x**3 * y.detach(), 1e-12).sum(),
}


@pytest.mark.parametrize("of", ["all", "first", "last"])
@pytest.mark.parametrize("computed", [False, True], ids=["leaves", "computed"])
@pytest.mark.parametrize("name", BESIDE)
@both
def test_inputs_that_no_gradient_flows_to_beside_a_second_derivative(door, name, computed, of):
    def outcome(called):
        leaves = [t_of(seed, 5, 3).double().requires_grad_() for seed in (1, 2)]
        inputs = [leaf * 1.5 for leaf in leaves] if computed else leaves
        results = called(*inputs, torch.tensor([0, 2, 2]))
        results = [result for result in (results if isinstance(results, tuple) else (results,)) if result.requires_grad]
        results = {"all": results, "first": results[:1], "last": results[-1:]}[of]
        found = []
        for wanted in (inputs, leaves, leaves):
            squares = sum(result.square().sum() for result in results)
            gradients = torch.autograd.grad(squares, wanted, create_graph=True, allow_unused=True)
            found.append([gradient if gradient is None else (gradient.requires_grad, gradient.detach()) for gradient in gradients])
            results = [gradient for gradient in gradients if gradient is not None]
        return found

    compiled = DOORS[door](BESIDE[name])
    for _ in range(2):
        compare.assert_same(outcome(compiled), outcome(BESIDE[name]))


def test_what_is_read_backwards_with_sizes_that_vary():
    """A convolution's own backward takes no tensor with strides that lead backwards."""
    weight = torch.randn(4, 3, 3, 3)

    def gradients(function, n):
        x = torch.linspace(-1, 1, 2 * 3 * n * 5).reshape(2, 3, n, 5).requires_grad_()
        function(x).square().sum().backward()
        return x.grad

    function = lambda x: F.conv2d(x.flip(3), weight, padding=1)
    compiled = oxytorch.compile(function, dynamic=True)
    for n in (6, 7):
        compare.assert_same(gradients(compiled, n), gradients(function, n))


SIZED = {
    "one that comes twice": lambda x: x.sin() * torch.ones(x.shape[0]) + torch.logcumsumexp(x, 0),
    "a computed one": lambda x: x.sin() * torch.ones(x.shape[0] * 2)[: x.shape[1]] + torch.logcumsumexp(x, 0) / (x.shape[0] + 1),
    "of a piece behind": lambda x: torch.logcumsumexp(x, 0).sin() * torch.full((x.shape[1],), x.shape[0] * 2.0),
}


@pytest.mark.parametrize("name", SIZED)
@both
def test_second_derivatives_where_sizes_vary(door, name):
    """Eager, which computes everything again, gets the numbers of sizes that the program knows without being told."""
    function = SIZED[name]
    compiled = DOORS[door](function)

    def derivatives(function, n):
        x = t_of(1, n, n).double().requires_grad_()
        (first,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        return [first.detach(), second]

    for n in (3, 4, 5):
        compare.assert_same(derivatives(compiled, n), derivatives(function, n))


def spectrum(t, window):
    return torch.stft(t * 2, 16, 4, window=window, return_complex=True).abs().square().mean()


def there_and_back(t, window):
    return torch.istft(torch.stft(t, 16, 4, window=window, return_complex=True) * 3, 16, 4, window=window).sin().sum()


@both
@pytest.mark.parametrize("function", [spectrum, there_and_back], ids=lambda function: function.__name__)
def test_functions_of_c_that_share_a_name_with_one_of_pythons(door, function):
    """Only torch can differentiate them, and runs the graph as a text that names them."""
    called = DOORS[door](function)
    for length in (64, 64, 80, 96):
        found = []
        for of in (called, function):
            t = t_of(length, 2, length).requires_grad_()
            of(t, torch.hann_window(16)).backward()
            found.append(t.grad)
        compare.assert_same(*found)


def of_one(t):
    return torch.logcumsumexp(t.sin(), 0).cos() * t.shape[0]


def of_two(t):
    h = torch.logcumsumexp(t.sin(), 0).t().contiguous() * 2
    return torch.logcumsumexp(h, 0).view(-1, 2).sum(1)


def of_pairs(t):
    return torch.softmax(-torch.cdist(t, t), 1) @ t


def of_parts(t):
    h = torch.logcumsumexp(t.sin(), 0)
    return (h.reshape(-1) + h.shape[0]).cos(), h[: h.shape[0] // 2].exp()


def written(t):
    with torch.no_grad():
        t[0].zero_()
    return t.sin() * t.shape[0]


@both
@pytest.mark.parametrize("function", [of_one, of_two, of_pairs, of_parts, written], ids=lambda function: function.__name__)
def test_sizes_vary_behind_what_only_torch_can_differentiate(door, function):
    """One trace for the first size, and one for all others."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    called = DOORS[door](function)
    for length in (6, 8, 10, 14):
        found = []
        for of in (called, function):
            leaf = t_of(length, length, 4).requires_grad_()
            results = of(leaf * 1)
            results = results if isinstance(results, tuple) else (results,)
            sum(result.sum() for result in results).backward()
            found.append([*(result.detach() for result in results), leaf.grad])
        compare.assert_same(*found)
    traced = called.stats()["traced"] if door == "capture" else torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert traced == 2


def test_a_view_of_what_many_operations_have_made_is_kept_for_the_gradient():
    """Neither was it made again nor kept: the gradient was made of another input's memory."""

    def histories(x):
        found = []
        for start in range(3):
            for n in range(12):
                x = torch.where(x > n, x * 0.5, (x + start).sin())
            found.append(x)
        return torch.stack(found, 1)

    def loss(x, w):
        return (F.linear(torch.ones(6, 3, 8), w) * histories(x)[..., None]).sum()

    compiled = oxytorch.compile(loss)
    ours, theirs = [torch.ones(5, 8, requires_grad=True) for _ in range(2)]
    x = torch.linspace(-1, 2, 6)
    compiled(x, ours).backward()
    loss(x, theirs).backward()
    compare.assert_same(ours.grad, theirs.grad)
