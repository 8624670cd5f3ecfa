"""Results and arguments that share memory, and writes to them: autograd knows of both as it does in eager."""

import warnings

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from training import DOORS, Doubled, check, x, x_of

both = pytest.mark.parametrize("door", DOORS)


@both
def test_a_result_without_grad_that_is_made_to_need_it_in_place(door):
    def f(t, w):
        with torch.no_grad():
            a = t * w
        a.mul_(w)
        b = torch.zeros_like(a)
        b[1] = w[0] * 2
        return a + b

    check(f, x(), x(), door=door)


@both
def test_in_place_on_results_and_their_views(door):
    def f(t):
        a = t * 2
        a[0].mul_(3)
        a[:, 1:3] += t[:, :2]
        b = a.view(-1)
        b[::2].exp_()
        return a.relu(), b

    check(f, x(), door=door)


@both
def test_in_place_on_an_argument_that_was_computed(door):
    def f(t):
        t.mul_(2)
        return t * t

    def outer(called, t):
        y = t * 3
        out = called(y)
        (out.sum() + y.sum()).backward()
        return out.detach(), y.detach(), t.grad

    compare.assert_same(outer(DOORS[door](f), x_of(5)), outer(f, x_of(5)))


def copy_without_grad(t, c):
    with torch.no_grad():
        t.copy_(c)


OVERWRITTEN = {
    "copied to": lambda t, c: t.copy_(c),
    "zero": lambda t, c: t.zero_(),
    "filled": lambda t, c: t.fill_(2.0),
    "assigned to": lambda t, c: t.__setitem__(..., c),
    "in part": lambda t, c: t[1:].zero_(),
    "through a view": lambda t, c: t.t().copy_(c.t()),
    "in a list": lambda t, c: torch._foreach_zero_([t]),
    "twice": lambda t, c: t.zero_().add_(c),
    "detached": lambda t, c: t.detach().zero_(),
    "without grad": copy_without_grad,
}


@both
@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("shown", [False, True], ids=["whole", "a view"])
@pytest.mark.parametrize("how", OVERWRITTEN)
def test_a_computed_argument_is_written_with_what_needs_no_grad(door, how, shown, returned):
    """Behind the call no gradient flows to what the argument was before."""

    def f(t, c):
        OVERWRITTEN[how](t, c)
        return t * 2 if returned else c * 2

    def outer(called):
        t, c = x_of(5), torch.ones(4, 8)
        base = t * 3
        y = base[:] if shown else base
        out = called(y, c)
        flags = [(of.requires_grad, of.is_leaf) for of in (out, y, base)]
        loss = (out * c).sum() + (y * y).sum() + base.sum()
        if loss.requires_grad:
            loss.backward()
        return flags, out.detach(), y.detach(), base.detach(), t.grad

    called = DOORS[door](f)
    for _ in range(3):
        compare.assert_same(outer(called), outer(f))


@both
@pytest.mark.parametrize("shown", [False, True], ids=["whole", "a view"])
@pytest.mark.parametrize("how", OVERWRITTEN)
def test_a_computed_tensor_is_overwritten(door, how, shown):
    """What it was made of has zeros for a gradient then, not none: an optimizer goes on with its momentum."""

    def f(t, other, c):
        made = t * 3
        OVERWRITTEN[how](made[:] if shown else made, other.sin() if how == "copied to" else c)
        return made * other, made

    found = []
    for called in (DOORS[door](f), f):
        for _ in range(2):
            t, other = x_of(5), x_of(6)
            results = called(t, other, torch.ones(4, 8))
            # inf * 0 is no number, and nothing of that comes to what was overwritten.
            results[0].backward(torch.full((4, 8), float("inf")), retain_graph=results[1].requires_grad)
            if results[1].requires_grad:
                results[1].sum().backward()
            found.append([*[(of.detach(), of.requires_grad) for of in results], t.grad, other.grad])
    compare.assert_same(found[:2], found[2:])


@both
def test_in_place_on_a_leaf_is_refused_in_eagers_words(door):
    def f(t):
        return t.mul_(2)

    called = DOORS[door](f)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            called(x())


@both
def test_results_that_are_views_of_arguments(door):
    def f(t):
        return t.view(-1), t[1:], t.detach().view(-1), t

    def outer(called, t):
        y = t * 1
        flat, rows, cut, whole = called(y)
        assert whole is y and flat._base is not None
        flat.mul_(2)
        (rows * 3 + y[1:]).sum().backward()
        assert not cut.requires_grad
        return rows.detach(), cut, t.grad

    compare.assert_same(outer(DOORS[door](f), x_of(2)), outer(f, x_of(2)))


@both
def test_results_that_share_memory(door):
    def f(t):
        y = t * 2
        return y, y[1], y.view(-1)[2:5], y.detach()

    def outer(called, t):
        y, row, part, cut = called(t)
        row.mul_(5)
        with torch.no_grad():
            cut[3].add_(1)
        (y.exp().sum() + part.sum()).backward()
        return y.detach(), row.detach(), part.detach(), t.grad

    for call in (outer,):
        try:
            want = call(f, x_of(3))
        except RuntimeError as error:
            with pytest.raises(RuntimeError):
                call(DOORS[door](f), x_of(3))
            assert "modified by an inplace operation" in str(error)
        else:
            compare.assert_same(call(DOORS[door](f), x_of(3)), want)


@both
def test_parts_of_one_result(door):
    def f(t):
        a, b = (t * 2).chunk(2, dim=1)
        y = t.exp()
        return a, b, y[0], y[2:]

    check(f, x(), door=door)


@both
def test_results_that_are_one_tensor(door):
    """Calls that give their argument back: a hook on one of the results is a hook on all."""

    def f(t):
        y = t.contiguous() * 2
        z = y.contiguous().to(torch.float32)
        w = F.relu(z, inplace=True)
        return t.float(), y, z, w, w.flatten(1), (z * y).sum()

    def outer(called, t, hooked):
        results = called(t)
        assert results[0] is t and all(other is results[1] for other in results[2:5])
        results[hooked].register_hook(lambda g: g * 10)
        parts = torch.autograd.grad(results[-1], results[1:5], retain_graph=True)
        (results[-1] + results[5 - hooked].sum()).backward()
        return parts, results[1].detach(), t.grad

    called = DOORS[door](f)
    for hooked in (1, 2, 3, 4):
        compare.assert_same(outer(called, x_of(hooked), hooked), outer(f, x_of(hooked), hooked), label=f"hook on {hooked}")


@both
def test_in_place_around_a_function_of_the_users_own_154820(door):
    def f(t):
        a = t * 2
        a.add_(1)
        b = Doubled.apply(a)
        b.mul_(3)
        c = Doubled.apply(b)
        return c.sub_(a)

    check(f, x(), door=door)


@both
def test_a_view_that_is_made_with_grad_in_a_graph_that_begins_without(door):
    def f(t, count):
        with torch.no_grad():
            count.add_(1)
            quiet = count[:2]
        a = t * 2
        return a, a.view(-1)[2:6], quiet

    called = DOORS[door](f)
    for _ in range(2):
        found = []
        for each in (called, f):
            count, w = torch.zeros(3), torch.ones(4, requires_grad=True)
            a, view, quiet = each(torch.ones(3, 4), count)
            view.mul_(w)
            with pytest.raises(RuntimeError, match="no_grad"):
                quiet.mul_(w[:2])
            found.append((a.detach(), count, torch.autograd.grad(a.square().sum(), w)))
        compare.assert_same(*found)


def columns(t, w):
    a, b = (t @ w).chunk(2, -1)
    return a, b, a.expand(a.shape)


def layers(t, w):
    a, b = (t @ w).unflatten(1, (2, -1)).transpose(0, 1).contiguous().unbind(0)
    return a, b, b.view(b.shape)


@both
@pytest.mark.parametrize("function", [columns, layers])
def test_parts_of_one_memory_with_sizes_that_vary_are_compiled(door, function):
    """As the mean and the deviation of a distribution are in front of its checks; a part and what shows the same elements, too."""

    def f(t, w):
        return function(t, w)

    def run(called, rows):
        t, w = (torch.linspace(-1, 1, n * 4).reshape(n, 4).requires_grad_() for n in (rows, 4))
        first, second, third = called(t, w)
        (first * second.exp() + third).sum().backward()
        return [first.detach(), second.detach(), third.detach(), t.grad, w.grad]

    called = DOORS[door](f)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "oxytorch: this graph runs in eager")
        for rows in (4, 6, 3, 4):
            compare.assert_same(run(called, rows), run(f, rows))


QUIET = {
    "alone": lambda y: (y.view(-1),),
    "beside its base": lambda y: (y, y[1:]),
    "several": lambda y: tuple(y.chunk(2)),
    "of a view": lambda y: (y.t()[:2],),
}


@both
@pytest.mark.parametrize("of", ["computed", "argument"])
@pytest.mark.parametrize("how", QUIET)
def test_views_that_are_made_without_grad_are_leaves(door, how, of):
    """Views of what requires grad require it themselves, in torch: what is computed of one has a gradient of it, which goes no further."""

    def f(t):
        y = t * 3 if of == "computed" else t
        with torch.no_grad():
            shown = QUIET[how](y)
        return *shown, y.sin().sum()

    called = DOORS[door](f)
    for _ in range(2):
        found = []
        for each in (called, f):
            t = x_of(4)
            results = each(t * 0.1)
            flags = [(r.requires_grad, r.is_leaf, r._is_view()) for r in results]
            (results[-1] + (results[-2] * 2).sum()).backward()
            found.append((flags, [r.detach() for r in results], t.grad, [r.grad for r in results if r.is_leaf]))
        compare.assert_same(*found)


WRITTEN_FIRST = {
    "a part of the view that was written": lambda p: p.view(-1).mul_(2)[:2],
    "one of several": lambda p: torch.relu_(p.t()).split(2)[0],
    "a view of an older view": lambda p: (p.flatten(), p.mul_(2))[0].view(4, 8),
    "the weight itself": lambda p: (p.view(-1).mul_(2), p[1])[1],
}


@both
@pytest.mark.parametrize("how", WRITTEN_FIRST)
def test_a_view_that_is_made_without_grad_behind_a_write_can_be_asked(door, how):
    """One that was made before the write cannot: torch raises when somebody asks for its history, or prints it."""
    called = DOORS[door](WRITTEN_FIRST[how])
    for _ in range(3):
        found = []
        for each in (called, WRITTEN_FIRST[how]):
            weight = x_of(5)
            with torch.no_grad():
                shown = each(weight)
            found.append((repr(shown), shown.is_leaf, shown.requires_grad, weight._version, weight.detach()))
        compare.assert_same(*found)


@pytest.mark.parametrize("dynamic", [True, None])
def test_a_whole_and_its_rows_where_sizes_vary(dynamic):
    """Results without a gradient beside one with it: the rows are parts of the whole, whatever their size."""

    def f(t, pairs):
        turned = pairs.flip([0]) + 1
        return t[turned[0] + 0].sum(0), turned[0], turned, turned[1], turned[:, 2:], turned.t()[0]

    compiled = oxytorch.compile(f, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs in eager")
        for count in (7, 7, 9, 12):
            found = []
            for function in (compiled, f):
                t, pairs = x_of(5), torch.arange(2 * count).view(2, count) % 3
                loss, first, whole, *others = function(t, pairs)
                whole[:, 1] -= 9
                first[0] = 17
                loss.sum().backward()
                offsets = [(part.storage_offset(), part.stride()) for part in (first, *others)]
                found.append([loss.detach(), first, whole, *others, offsets, t.grad])
            compare.assert_same(*found)
