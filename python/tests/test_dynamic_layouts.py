"""How results lie in memory, where sizes vary: as eager's do at each, though it was decided at the first."""

import pytest
import torch
import torch.nn.functional as F

import oxytorch
from compare import assert_same
from dynamic import check, rand

LAST = torch.channels_last


def norm(x):
    return F.batch_norm(x, None, None, training=True)


def lie_alike(function, calls, dynamic=True):
    """What comes out lies as eager's, shares memory with what eager's shares it, and is the argument where eager's is."""
    compiled = oxytorch.compile(function, dynamic=dynamic)
    for args in calls:
        ours, eagers = compiled(*args), function(*args)
        assert_same(ours, eagers, label=str(tuple(args[0].shape)))
        assert (ours is args[0]) == (eagers is args[0])
        shares = [out.untyped_storage().data_ptr() == args[0].untyped_storage().data_ptr() for out in (ours, eagers)]
        assert shares[0] == shares[1]
    return compiled.stats()["traced"]


ORDERED = {
    "batch norm": lambda x: norm((x * 2)[:, ::2]),
    "maximum": lambda x: F.max_pool2d((x * 2)[:, ::2], 2),
    "chain": lambda x: torch.relu(norm((x * 2)[:, ::2])) + 1,
    "to": lambda x: (x * 2)[:, ::2].to(memory_format=LAST),
    "contiguous": lambda x: (x * 2)[:, ::2].contiguous(memory_format=LAST),
    "copy": lambda x: (x * 2)[:, ::2].clone(),
    "rows": lambda x: norm((x * 2)[:, ::2]).flatten(1),
}


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("channels", [(2, 6, 4, 1, 7), (6, 2, 4, 1)], ids=str)
@pytest.mark.parametrize("dynamic", [True, None])
def test_one_channel_says_nothing_of_others(name, channels, dynamic):
    """Of 2 channels every second is one: channels last is then as good a name for it as row by row."""
    lie_alike(ORDERED[name], [(torch.randn(2, c, 4, 6),) for c in channels], dynamic)


FORMATS = {
    "to": lambda x: x.to(memory_format=LAST),
    "contiguous": lambda x: x.contiguous(memory_format=LAST),
    "back": lambda x: x.contiguous(memory_format=LAST).contiguous(),
    "doubled": lambda x: x.contiguous(memory_format=LAST) * 2,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("last", [False, True])
def test_formats_that_are_asked_for(name, last):
    """At one channel, or one place, nothing is copied: eager returns the argument."""
    for shapes in ([(2, c, 4, 5) for c in (3, 6, 1, 4)], [(2, 3, n, n) for n in (3, 1, 4)], [(n, 3, 4, 5) for n in (3, 1, 4, 6)]):
        calls = [(torch.randn(shape).to(memory_format=LAST if last else torch.contiguous_format),) for shape in shapes]
        assert lie_alike(FORMATS[name], calls) <= 3


MADE = {
    "product": lambda x: x * 2,
    "pool": lambda x: F.avg_pool2d(x, 2),
    "resized": lambda x: F.interpolate(x, scale_factor=2),
    "part": lambda x: (x * 2)[1:],
    "argument": lambda x: x,
    "rows": lambda x: (x * 2).contiguous(),
}
WRITTEN = {
    "whole": lambda z: z.add_(1),
    "flat": lambda z: z.permute(0, 2, 3, 1).reshape(-1).add_(1),
    "part": lambda z: z[:, 1].contiguous(memory_format=torch.contiguous_format).add_(1),
    "again": lambda z: z.contiguous(memory_format=LAST)[1:].add_(1),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("compiler", [oxytorch.compile, lambda f: torch.compile(f, backend="oxytorch")], ids=["own", "dynamo"])
def test_what_lies_in_the_asked_format_is_not_copied(made, written, compiler):
    """torch's fake kernels copy where sizes vary: what was written to the one was not seen in the other."""

    def function(x):
        y = MADE[made](x)
        z = y.contiguous(memory_format=LAST)
        shown = WRITTEN[written](z)
        return y, z, shown, z[0]

    torch._dynamo.reset()
    compiled = compiler(function)
    for shape in ((2, 3, 4, 6), (3, 3, 6, 8), (5, 3, 8, 10), (2, 3, 4, 4)):
        x = torch.randn(shape).to(memory_format=LAST)
        given = x.clone(memory_format=torch.preserve_format)
        ours, eagers = compiled(given), function(x)
        assert_same((ours, given), (eagers, x))
        assert (ours[0] is ours[1]) == (eagers[0] is eagers[1])
        for n, m in ((0, 1), (0, 2), (1, 3)):
            shares = [a[n].untyped_storage().data_ptr() == a[m].untyped_storage().data_ptr() for a in (ours, eagers)]
            assert shares[0] == shares[1]
        assert [out.storage_offset() for out in ours] == [out.storage_offset() for out in eagers]


def test_batches_of_any_size_in_one_format():
    """A batch is the outermost dimension in both formats: whether there is a copy does not depend on it."""
    convolution = torch.randn(4, 3, 3, 3)
    function = lambda x: F.conv2d(x.contiguous(memory_format=LAST), convolution).mean((2, 3))
    with torch.no_grad():
        assert lie_alike(function, [(torch.randn(n, 3, 8, 9),) for n in (4, 6, 2, 5)]) == 1


@pytest.mark.parametrize("function", [lambda x, y: x.expand(3, y.shape[0]), lambda x, y: (x * 2).expand(y.shape[0], 3, -1)])
def test_what_is_expanded_to_one_element_has_a_stride(function):
    compiled = oxytorch.compile(function, dynamic=True)
    for n in (4, 1, 5, 1, 2):
        x = torch.randn(3, 1)
        ours, eagers = compiled(x, torch.zeros(n)), function(x, torch.zeros(n))
        assert ours.stride() == eagers.stride() and torch.equal(ours, eagers)


def test_small_images_need_no_code_of_their_own():
    """A side of one that was computed is relied on only where something lies by it: what lies row by row does so at all sizes."""
    weight = torch.randn(8, 3, 3, 3)
    function = lambda x: F.linear(norm(F.conv2d(x, weight, stride=4, padding=1)).relu().mean((2, 3)), weight.reshape(8, -1)[:, :8])
    with torch.no_grad():
        assert lie_alike(function, [(torch.randn(2, 3, h, w),) for h, w in ((4, 16), (8, 4), (12, 20))]) == 1


def test_rolled_by_whole_turns_at_some_sizes():
    """What is rolled by nothing lies row by row, whatever lay before; a dimension of one element is."""
    calls = [(torch.randn(2, 3, h, w).to(memory_format=torch.channels_last),) for h, w in ((8, 9), (6, 10), (1, 4), (5, 7), (4, 1))]
    captured = oxytorch._oxytorch.capture(lambda x: x.roll((1, -1), (2, 3)), dynamic=True)
    for (x,) in calls:
        assert_same(captured(x), x.roll((1, -1), (2, 3)))
    assert captured.stats()["traced"] == 3, captured.show()


ONE_ELEMENT = {
    "a number": lambda x: x[::2] * 2,
    "itself": lambda x: x[::2] + x[::2],
    "a function": lambda x: x[::2].exp(),
    "a tensor without dimensions": lambda x: x[::2] + x.sum(),
    "another": lambda x: x[::2] + x[:1],
    "columns": lambda x: x.t() + x.t(),
    "columns and a number": lambda x: x.t() * 2,
    "integers": lambda x: x[::2].long() * 0.5,
    "a norm": lambda x: torch.nn.functional.layer_norm(x[::2], x.shape[1:]),
}


@pytest.mark.parametrize("name", ONE_ELEMENT)
def test_strides_of_dimensions_of_one_element(name):
    function = ONE_ELEMENT[name]
    for shape in ((1, 6), (2, 6), (1, 1), (6, 1)):
        x = torch.randn(shape)
        captured = oxytorch._oxytorch.capture(function, dynamic=False)
        try:
            wanted = function(x)
        except RuntimeError:
            continue
        ours = captured(x)
        assert ours.stride() == wanted.stride(), (shape, ours.stride(), wanted.stride())


STRIDES = {
    "of one dimension": lambda x: x * x.stride(0),
    "of all": lambda x: x * x.stride()[0] + x.stride()[-1],
    "of a view": lambda x: x * x.t().stride(1),
    "of what is computed": lambda x: x * (x * 2).stride(0),
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides_follow_from_sizes(name):
    function = STRIDES[name]
    check(function, [(rand(n, m),) for n, m in ((5, 7), (12, 3), (4, 4), (3, 9), (2, 5))])
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    with torch.no_grad():
        for x in (rand(5, 7), rand(9, 3)[4:5], rand(1, 3), rand(9, 3)[::4], rand(4, 1), rand(4, 6)[:, :1], rand(4, 6)[:1, :1]):
            assert_same(captured(x), function(x))


def test_what_is_padded_by_nothing_lies_as_before():
    """Eager copies it as it is, and lays out anew what it pads; to multiples of four there is nothing to pad at some sizes."""
    function = lambda x: F.pad(x, (0, -x.shape[1] % 4))
    turned = [(rand(m, n).t(),) for n, m in ((4, 5), (3, 7), (6, 8), (5, 6), (2, 4))]
    rows = [(rand(n, m),) for n, m in ((4, 5), (3, 7), (6, 8), (5, 6), (2, 4))]
    assert (lie_alike(function, turned), lie_alike(function, rows)) == (2, 1)
    image = lambda x: F.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4))
    assert lie_alike(image, [(rand(2, 3, h, w).to(memory_format=LAST),) for h, w in ((5, 6), (8, 7), (7, 8), (8, 12))]) == 1


def test_places_in_memory_that_is_computed():
    """`as_strided` of what is computed had the sizes of the first call."""
    for function in (lambda x: (x * 2).as_strided((x.shape[0], 1), (1, 1)).exp(), lambda x: (x + 1).as_strided((x.shape[0] - 1, 2), (2, 1)) * 2):
        lie_alike(function, [(rand(n, m),) for n, m in ((5, 7), (9, 4), (3, 3), (9, 4))])


def test_windows_that_overlap_lie_by_their_number():
    """Of two dimensions with one stride the shorter one lies inside: as many windows as there are, or as long as each is."""
    for function in (lambda x: x.unfold(0, 2, 1) * 2, lambda x: x.unfold(0, 3, 1).exp(), lambda x: x.unfold(0, 4, 1) + x.sum()):
        calls = [(rand(n, 6),) for n in (9, 12, 5, 6, 7, 4, 8)]
        assert lie_alike(function, calls) <= 4
        assert lie_alike(function, calls, dynamic=None) <= 5
