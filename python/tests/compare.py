"""The rule by which a result counts as right.

A result must have eager's structure, dtype, shape and strides, and values that `torch.testing.assert_close` accepts for the
dtype. Where it does not, the values still count if their error against a float64 run is at most twice eager's own: two orders of
summation may differ by more than the tolerance without either being wrong.
"""

import torch
from torch.utils._pytree import tree_flatten, tree_map


def assert_same(actual, expected, reference=None, *, strides=True, times=2, label="result"):
    """`reference` gives the same results computed in float64; called only if the tolerance does not suffice. `times` eager's error is
    then allowed."""
    got, got_spec = tree_flatten(actual)
    want, want_spec = tree_flatten(expected)
    assert got_spec == want_spec, f"{label}: structure {got_spec} instead of {want_spec}"
    exact = None
    for place, (a, e) in enumerate(zip(got, want)):
        where = f"{label}[{place}]"
        if not isinstance(e, torch.Tensor):
            assert type(a) is type(e) and a == e, f"{where}: {a!r} instead of {e!r}"
            continue
        assert_same_layout(a, e, where, strides)
        problem = closeness(a, e)
        if problem is None:
            continue
        if reference is not None and exact is None:
            exact = tree_flatten(reference())[0]
        assert exact is not None and within_eagers_error(a, e, exact[place], times), f"{where}: {problem}"


def assert_same_layout(actual, expected, where, strides):
    assert isinstance(actual, torch.Tensor), f"{where}: {type(actual)} instead of a tensor"
    assert actual.dtype == expected.dtype, f"{where}: {actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{where}: shape {tuple(actual.shape)} instead of {tuple(expected.shape)}"
    assert actual.device == expected.device, f"{where}: {actual.device} instead of {expected.device}"
    if strides and expected.numel() > 0 and expected.layout == torch.strided:
        # The stride of a dimension of size 1 reaches nothing.
        same = all(a == e for a, e, n in zip(actual.stride(), expected.stride(), expected.shape) if n > 1)
        assert same, f"{where}: strides {actual.stride()} instead of {expected.stride()}"


def closeness(actual, expected):
    """None, or what `assert_close` has against it."""
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return None


def within_eagers_error(actual, expected, exact, times):
    if not (actual.is_floating_point() or actual.is_complex()):
        return False
    wide = torch.complex128 if actual.is_complex() else torch.float64
    a, e, x = actual.to(wide), expected.to(wide), exact.to(wide)
    if not torch.equal(a.isfinite(), e.isfinite()) or not torch.equal(a.isnan(), e.isnan()):
        return False
    finite = e.isfinite() & x.isfinite()
    if not finite.any():
        return True
    ours, eagers = (a - x).abs()[finite].max(), (e - x).abs()[finite].max()
    return bool(ours <= times * eagers)


def to_double(tree):
    """The same arguments in float64."""

    def widen(value):
        if isinstance(value, torch.Tensor) and value.is_complex():
            return value.to(torch.complex128)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(torch.float64)
        return value

    return tree_map(widen, tree)


def copies(tree):
    """Fresh copies with the same strides, so that in-place operations cannot leak from one run into the other."""

    def copy(value):
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        if value.numel() == 0 or value.is_conj() or value.is_neg():
            return value.clone()
        storage = value.untyped_storage().clone()
        return torch.empty(0, dtype=value.dtype, device=value.device).set_(storage, value.storage_offset(), value.shape, value.stride())

    return tree_map(copy, tree)
