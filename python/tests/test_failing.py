"""Exceptions that depend on values, in functions that have clauses for them: eager's result, effects and exceptions, whether the call is the
first or a later one, and nothing is done twice."""

import contextlib

import oxytorch
import pytest
import torch
import torch.nn.functional as F

TABLE = torch.arange(12.0).reshape(4, 3)
GOOD, BAD = torch.tensor([0, 3]), torch.tensor([1, 4])


def told(log, what):
    log.append(what)


@contextlib.contextmanager
def noted(log):
    log.append("in")
    try:
        yield
    finally:
        log.append("out")


@contextlib.contextmanager
def kept(log):
    try:
        yield
    except IndexError:
        log.append("kept")


def clause(at, log):
    try:
        y = TABLE[at] * 2
    except IndexError as error:
        return TABLE[:2] - 1, str(error)
    return y, None


def effects_on_both_sides(at, log):
    told(log, "before")
    try:
        y = TABLE[at] * 2
        told(log, "read")
    except IndexError:
        told(log, "caught")
        y = TABLE[:2]
    told(log, "after")
    return y + 1


def effects_without_a_clause(at, log):
    told(log, "before")
    y = TABLE.index_select(0, at).sum()
    told(log, "after")
    return y


def computed_index(at, log):
    told(log, "before")
    try:
        y = TABLE[at.abs() + 0]
        told(log, "read")
    except (ValueError, IndexError):
        told(log, "caught")
        y = TABLE[0]
    return y * 4


def called(at, log):
    def look(at):
        return F.embedding(at, TABLE)

    try:
        return look(at).sum(0)
    except TypeError:
        return told(log, "not this one")
    except Exception as error:
        told(log, type(error).__name__)
        return TABLE.sum(0)


def suppressed(at, log):
    y = TABLE[0]
    with contextlib.suppress(IndexError):
        y = TABLE[at].sum(0)
        told(log, "read")
    return y * 2


def written(at, log):
    x = torch.zeros(4)
    try:
        x.index_add_(0, at, torch.ones(2))
    except (IndexError, RuntimeError) as error:
        told(log, type(error).__name__)
    return x + 1


def scattered(at, log):
    source = TABLE[:2] * 2
    try:
        index = at.abs().view(-1, 1).expand_as(source)
        count = source.new_zeros(4).scatter_add_(0, at, source.new_ones(2))
        return torch.zeros(4, 3).scatter_add_(0, index, source) / count.clamp(min=1).view(-1, 1)
    except (IndexError, RuntimeError) as error:
        told(log, type(error).__name__)
        return source * 0


def behind_a_write(at, log):
    """To memory that is not the index's."""
    scale = TABLE.sum(0)
    scale[scale > 20] = 1
    counts = at.new_zeros(4).scatter_add_(0, at.clamp(max=3), torch.ones_like(at))
    try:
        y = TABLE[at + 0] * scale
    except IndexError:
        told(log, "caught")
        y = TABLE[:2]
    return y * counts[:2].view(-1, 1)


def shifted_pairs(at, log):
    """An index that the function itself has written in parts."""
    pairs = torch.stack([at, at.flip(0)])
    pairs[0] += 1
    pairs[0] -= 1
    try:
        return TABLE[pairs[0]] + TABLE[pairs[1]]
    except IndexError:
        told(log, "caught")
        return TABLE[:2]


def made_bad_in_parts(at, log):
    ends = at.clone()
    ends[:1] += at[1:]
    try:
        return TABLE[ends.clamp(max=3) + (ends > 3).long() * 5]
    except IndexError:
        told(log, "caught")
        return TABLE[:2]


def places_in_places(at, log):
    """Of the integers that are read it does not matter which they are; those that say where are filled in parts."""
    begins = at.new_empty(3)
    begins[:1].zero_()
    torch.cumsum(at, 0, out=begins[1:])
    try:
        return TABLE[begins[at.clamp(max=2)].clamp(max=3)], begins[at - 1]
    except IndexError:
        told(log, "caught")
        return TABLE[:2]


def argument_written(at, log):
    log[0].add_(1)
    try:
        y = TABLE[at]
    except IndexError:
        y = TABLE[:2]
    return y * 2


def behind_an_action(at, log):
    n = len(str(at.tolist()))
    told(log, n)
    try:
        y = TABLE[at] * 2
    except IndexError:
        told(log, "caught")
        y = TABLE[:2]
    return y + n


def read_behind_a_clause(at, log):
    try:
        y = TABLE[at].sum(0)
    except IndexError:
        told(log, "caught")
        y = TABLE[0]
    return y * at.sum().item()


def kept_by_the_data_behind_a_clause(at, log):
    try:
        y = F.embedding(at, TABLE)
    except IndexError:
        y = TABLE[:2]
    return y[TABLE[:2] > 1] * 2


def passing(at, log):
    with noted(log):
        y = TABLE[at] * 2
    told(log, "after")
    return y


def in_contexts(at, log):
    """Through which exceptions only pass."""
    told(log, "before")
    with torch.no_grad(), contextlib.nullcontext(), noted(log):
        y = TABLE[at.abs()] * 2
    return y


def keeping(at, log):
    y = TABLE[0]
    with kept(log):
        y = TABLE[at].sum(0)
    return y + 1


def again_and_again(at, log):
    for n in range(3):
        try:
            y = TABLE[at + n - 1]
            break
        except IndexError:
            told(log, n)
            y = TABLE[:2]
    else:
        y = y - 1
    return y * 2


def raised_anew(at, log):
    try:
        return TABLE[at] + 1
    except IndexError as error:
        told(log, "caught")
        raise ValueError("no such row") from error


def divided(at, log):
    told(log, "before")
    try:
        y = torch.tensor([7, 8]) // (at - 1)
    except RuntimeError as error:
        told(log, str(error))
        y = at
    return y + 1


def inverted(at, log):
    matrix = TABLE[:3] * 0 + torch.eye(3) * (at[1] - 4)
    try:
        y = torch.linalg.inv(matrix)
    except RuntimeError as error:
        told(log, type(error).__name__)
        y = matrix
    return y + 1


FUNCTIONS = [clause, effects_on_both_sides, computed_index, called, suppressed, written, scattered, argument_written, behind_an_action]
FUNCTIONS += [behind_a_write, shifted_pairs, made_bad_in_parts, places_in_places]
FUNCTIONS += [read_behind_a_clause, kept_by_the_data_behind_a_clause, keeping, again_and_again, raised_anew, divided, inverted]


def outcome(function, at):
    log = [torch.zeros(1)]
    try:
        result = function(at, log)
    except Exception as error:
        return type(error).__mro__[-3], str(error), type(error.__cause__), log
    return result, log


def same(got, want):
    if isinstance(want, torch.Tensor):
        return torch.equal(got, want)
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(map(same, got, want))
    return got == want


@pytest.mark.parametrize("calls", [(GOOD, BAD, GOOD, BAD), (BAD, GOOD, BAD), (BAD, BAD, GOOD, GOOD, BAD)], ids=["good", "bad", "twice"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@torch.no_grad()
def test_clauses_see_what_eager_shows_them(function, calls):
    compiled = oxytorch.compile(function)
    for at in calls:
        got, want = outcome(compiled, at.clone()), outcome(function, at.clone())
        assert same(got, want), f"{got} instead of {want}"


@pytest.mark.parametrize("function", [effects_without_a_clause, passing, in_contexts], ids=lambda f: f.__name__)
@torch.no_grad()
def test_effects_in_front_of_a_failure_are_done(function):
    """Not so in the first call, if that is the one that fails: tracing goes on, and what comes behind is done as well."""
    compiled = oxytorch.compile(function)
    for at in (GOOD, BAD, GOOD, BAD):
        got, want = outcome(compiled, at), outcome(function, at)
        assert same(got, want), f"{got} instead of {want}"


SEEN = [clause, called, suppressed, passing, again_and_again, in_contexts, computed_index, scattered]
SEEN += [behind_a_write, shifted_pairs, made_bad_in_parts, places_in_places]


@pytest.mark.parametrize("function", SEEN, ids=lambda f: f.__name__)
@torch.no_grad()
def test_a_clause_needs_no_break(function):
    """An index that is known when the function is traced, or is easy to know, is tried at once."""
    compiled = oxytorch.compile(function)
    for at in (GOOD, BAD, GOOD):
        got, want = outcome(compiled, at.clone()), outcome(function, at.clone())
        assert same(got, want)
    assert compiled.stats()["breaks"] == [] or function is again_and_again


def test_training():
    def f(table, at, log):
        try:
            y = F.embedding(at, table).square().sum()
        except IndexError:
            told(log, "caught")
            y = table.sum()
        return y

    compiled = oxytorch.compile(f)
    for at in (GOOD, BAD, GOOD, BAD):
        found = []
        for function in (compiled, f):
            table, log = TABLE.clone().requires_grad_(), []
            function(table, at, log).backward()
            found.append((table.grad, log))
        assert same(*found)


@torch.no_grad()
def test_random_numbers_are_not_drawn_twice():
    def f(at, log):
        try:
            y = torch.rand(2, 3) + TABLE[at]
        except IndexError:
            y = torch.rand(2, 3)
        return y

    compiled = oxytorch.compile(f, options={"fallback_random": True})
    for at in (GOOD, GOOD):
        torch.manual_seed(3)
        got = outcome(compiled, at), torch.rand(1)
        torch.manual_seed(3)
        assert same(got, (outcome(f, at), torch.rand(1)))


def remainder_into(i):
    j = i + 0
    torch.remainder(i, 4, out=j)
    return j


def shifted_view(i):
    j = i + 0
    v = j[:1]
    v >>= 3
    return j


def rest(i):
    i %= 4
    return i


def low_bits(i):
    i &= 3
    return i


def computed_and(write):
    def f(i):
        j = i + 0
        return write(j)

    return f


def set_first(i):
    i[0] = 2
    return i


def zero_a_view(i):
    i[:1].zero_()
    return i


def in_place_by_a_flag(i):
    F.hardtanh(i, 0, 3, True)
    return i


IN_PLACE = {
    "clamp_": lambda i: i.clamp_(max=3),
    "imod": rest,
    "iand": low_bits,
    "method": lambda i: i.__iand__(3),
    "setitem": set_first,
    "view": zero_a_view,
    "flag": in_place_by_a_flag,
}
WRITES = IN_PLACE | {f"computed {name}": computed_and(write) for name, write in IN_PLACE.items()}
WRITES |= {"out": remainder_into, "shifted view": shifted_view}


@pytest.mark.parametrize("name", WRITES)
@torch.no_grad()
def test_indices_that_are_still_to_be_written(name):
    def f(t, i):
        j = WRITES[name](i)
        try:
            return t[j], i
        except IndexError:
            return "caught", i

    compiled = oxytorch.compile(f)
    for first in (9, 0, 9):
        got, want = (g(torch.arange(4.0), torch.tensor([first, 0])) for g in (compiled, f))
        assert same(got, want), f"{got} instead of {want}"


@torch.no_grad()
def test_an_index_that_a_write_makes_bad():
    def f(t, i):
        i.add_(8)
        try:
            return t[i]
        except IndexError:
            return "caught"

    compiled = oxytorch.compile(f)
    for first in (1, -8, 1):
        got, want = (g(torch.arange(4.0), torch.tensor([first, -5])) for g in (compiled, f))
        assert same(got, want), f"{got} instead of {want}"


@torch.no_grad()
def test_a_matrix_that_is_still_to_be_written():
    def f(t):
        t.mul_(0).add_(torch.eye(2))
        try:
            return torch.linalg.cholesky(t)
        except RuntimeError:
            return "caught"

    assert same(oxytorch.compile(f)(-torch.eye(2)), torch.eye(2))


@torch.no_grad()
def test_what_is_written_by_out_is_not_tried():
    def f(t, i):
        o = torch.zeros(2)
        try:
            torch.index_select(t, 0, i, out=o)
        except IndexError:
            o.add_(7)
        return o

    compiled = oxytorch.compile(f)
    for first in (1, 9, 2, 9):
        got, want = (g(torch.arange(4.0), torch.tensor([0, first])) for g in (compiled, f))
        assert same(got, want), f"{got} instead of {want}"


DRAWS = {
    "bernoulli": lambda p: torch.bernoulli(p),
    "bernoulli_": lambda p: torch.zeros(4).bernoulli_(p),
    "multinomial": lambda p: torch.multinomial(p, 1),
    "normal": lambda p: torch.normal(0.0, p),
    "poisson": lambda p: torch.poisson(p),
}


@pytest.mark.parametrize("name", DRAWS)
@torch.no_grad()
def test_draws_that_fail(name):
    def f(t, i):
        try:
            return DRAWS[name](t + i).shape
        except RuntimeError as error:
            return str(error)

    compiled = oxytorch.compile(f)
    for i in (-2.0, 0.0, -2.0, 0.25):
        got, want = (g(torch.full((4,), 0.5), torch.tensor(i)) for g in (compiled, f))
        assert got == want


def draw_after_a_draw(t):
    first = torch.rand(4)
    try:
        second = torch.bernoulli(t)
    except RuntimeError:
        second = torch.rand(4)
    return first, second


@torch.no_grad()
def test_draws_in_clauses_are_drawn_once():
    compiled = oxytorch.compile(draw_after_a_draw, options={"fallback_random": True})
    found = []
    for function in (compiled, draw_after_a_draw, compiled):
        torch.manual_seed(5)
        found.append((function(torch.full((4,), 0.5)), torch.rand(1)))
    assert same(found[0], found[1]) and same(found[2], found[1])


def floor_divide(j, d):
    j //= d


def modulo(j, d):
    j %= d


DIVIDE = {
    "ifloordiv": floor_divide,
    "imod": modulo,
    "method": lambda j, d: j.__ifloordiv__(d),
    "remainder_": lambda j, d: j.remainder_(d),
    "div_": lambda j, d: j.div_(d, rounding_mode="floor"),
}


@pytest.mark.parametrize("name", DIVIDE)
@pytest.mark.parametrize("is_outside", [False, True], ids=["computed", "argument"])
@torch.no_grad()
def test_divisions_in_place(name, is_outside):
    def f(i, d, log):
        j = i if is_outside else i * 5
        told(log, "before")
        try:
            DIVIDE[name](j, d)
            told(log, "divided")
        except RuntimeError as error:
            told(log, str(error))
        return j + 1, i

    compiled = oxytorch.compile(f)
    for d in (0, 3, 0, 2):
        logs = [], []
        got, want = (g(torch.tensor([7, 9]), torch.tensor([d, d]), log) for g, log in zip((compiled, f), logs))
        assert same((got, logs[0]), (want, logs[1])), f"{got} {logs[0]} instead of {want} {logs[1]}"


@pytest.mark.parametrize("divide", [lambda j: j.remainder_(0), lambda j: j.__imod__(0), lambda j: torch.div(j, 0, rounding_mode="floor")])
@torch.no_grad()
def test_divisions_by_the_number_zero(divide):
    def f(i):
        try:
            return divide(i * 5)
        except RuntimeError as error:
            return str(error)

    assert same(oxytorch.compile(f)(torch.tensor([7])), f(torch.tensor([7])))


@torch.no_grad()
def test_statistics_are_not_updated_twice():
    def f(x, mean, variance):
        at = F.batch_norm(x, mean, variance, training=True).argmax(0)
        try:
            return TABLE[at]
        except IndexError:
            return "caught"

    x = torch.arange(6.0).reshape(3, 2).square()
    found = []
    for function in (oxytorch.compile(f), f):
        mean, variance = torch.zeros(2), torch.ones(2)
        found.append((function(x, mean, variance), mean))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1])


def test_a_clause_for_what_no_value_raises_ends_no_graph():
    def step(cache, place, x):
        at = torch.arange(2) + place
        place.add_(2)
        try:
            cache.index_copy_(0, at, x)
        except NotImplementedError:
            cache[at] = x
        return cache.sum()

    ours, theirs = [(torch.zeros(6), torch.zeros((), dtype=torch.int64)) for _ in range(2)]
    compiled = oxytorch.compile(step)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(compiled(*ours, torch.ones(2)), step(*theirs, torch.ones(2)))
        assert torch.equal(ours[0], theirs[0])
    assert compiled.stats()["breaks"] == []


MASK = torch.tensor([True, False, True, True, False])


@pytest.mark.parametrize("name", ["masked_scatter", "masked_scatter_"])
@pytest.mark.parametrize("counts", [(2, 3, 2), (3, 2, 5), (2, 2)])
@torch.no_grad()
def test_a_mask_with_more_places_than_there_are_elements(name, counts):
    def f(x, mask, source, log):
        told(log, "before")
        y = x * 2
        try:
            y = getattr(y, name)(mask, source)
            told(log, "written")
        except RuntimeError as error:
            told(log, str(error))
        return x + 1 if len(log) == 2 and log[1] != "written" else y

    compiled = oxytorch.compile(f)
    for count in counts:
        logs = [], []
        got, want = (g(torch.arange(5.0), MASK, torch.ones(count), log) for g, log in zip((compiled, f), logs))
        assert same((got, logs[0]), (want, logs[1])), f"{got} {logs[0]} instead of {want} {logs[1]}"


# Shadows hold no data: torch.tensor of them refuses nothing.
ODD_DATA = {
    "a list beside a number": lambda x: torch.tensor([1, [2]]),
    "by name": lambda x: torch.tensor(data=[1, [2]]),
    "rows of two lengths": lambda x: torch.tensor([[1, 2], [3]]),
    "a text": lambda x: x.new_tensor([1, "a"]),
    "tensors of many elements": lambda x: torch.tensor([x, x]),
    "a list beside a tensor": lambda x: torch.tensor([x.sum(), [2.0]]),
    "a list beside a size": lambda x: torch.tensor([x.shape[0], [1]]),
    "an array": lambda x: torch.asarray([1, [2]]),
    "as a tensor": lambda x: torch.as_tensor([x, [x]]),
    "an int beyond all": lambda x: torch.tensor([2**70]),
    "an int beyond its type": lambda x: torch.tensor([300], dtype=torch.uint8),
    "a complex number": lambda x: torch.tensor([1j], dtype=torch.float32),
    "no number": lambda x: torch.tensor([float("nan")], dtype=torch.int32),
}


@pytest.mark.parametrize("make", ODD_DATA.values(), ids=ODD_DATA)
def test_data_that_is_no_tensor(make):
    def function(x):
        try:
            return make(x)
        except Exception as error:
            return type(error), str(error)
        finally:
            x.add_(1)

    captured = oxytorch.compile(function)
    for _ in range(3):
        ours, theirs = torch.ones(4), torch.ones(4)
        assert captured(ours) == function(theirs)
        assert torch.equal(ours, theirs)


OF_TENSORS = [lambda x: torch.tensor([[x[0], 1.0], (2, True)]), lambda x: x.new_tensor([x.shape[0], 2])]
# torch takes Python's types for its own.
OF_PYTHONS_TYPES = [lambda x: torch.tensor([2, x[0]], dtype=float), lambda x: x.new_tensor([2, True], dtype=int)]


@pytest.mark.parametrize("make", OF_TENSORS + OF_PYTHONS_TYPES)
def test_data_that_is_a_tensor_is_no_break(make):
    captured = oxytorch.compile(lambda x: make(x) * 2, fullgraph=True)
    for _ in range(3):
        assert torch.equal(captured(torch.ones(4)), make(torch.ones(4)) * 2)


class Weighs:
    def __init__(self):
        self.asked = 0

    def __float__(self):
        self.asked += 1
        return 1.5


def test_data_that_is_tried_is_asked_once_and_kept_by_its_clause():
    def of_tensors(x):
        try:
            return torch.tensor([x.sum(), 1.0], dtype=torch.int64)
        except TypeError:
            return "kept"

    def without_end(x):
        data = [1.0]
        data.append(data)
        try:
            return torch.tensor(data)
        except Exception as error:
            return type(error).__name__

    x = torch.ones(3)
    for function in (of_tensors, without_end):
        fast = oxytorch.compile(function)
        assert [fast(x) for _ in range(3)] == [function(x)] * 3
    fast, weighs = oxytorch.compile(lambda x, o: x + torch.tensor([o], dtype=torch.float32)), Weighs()
    for calls in (1, 2, 3):
        torch.testing.assert_close(fast(x, weighs), x + 1.5)
        assert weighs.asked == calls


def scaled_beside(x, c):
    x.add_(1)
    scaled = c.clone()
    scaled.mul_(2)
    return scaled.max()


def scaled_itself(x, c):
    x.add_(1)
    c.mul_(2)
    return c.max()


def padded(x, c):
    x.add_(1)
    return F.pad(c, (1, 1)).max()


@pytest.mark.parametrize("function", [scaled_beside, scaled_itself, padded])
@torch.no_grad()
def test_what_torch_refuses_behind_a_write_of_what_the_graph_made_is_refused_by_eager(function):
    """A call that writes copies of ours can be made again: eager does the whole call, with its writes and its words."""
    compiled = oxytorch.compile(function)
    for _ in range(3):
        found = []
        for f in function, compiled:
            x, c = torch.zeros(2), torch.ones(2, dtype=torch.complex64)
            with pytest.raises(NotImplementedError) as error:
                f(x, c)
            found.append((str(error.value), x.tolist(), c.tolist()))
        assert found[0] == found[1]


BEHIND_WRITES = {
    "a complex number's part": lambda x, i: torch.complex(x, x).real[i],
    "complex numbers": lambda x, i: torch.complex(x, x)[i],
    "a spectrum": lambda x, i: torch.fft.fft(x)[i],
}


@pytest.mark.parametrize("take", BEHIND_WRITES.values(), ids=BEHIND_WRITES)
@torch.no_grad()
def test_writes_before_what_torch_refuses_are_done(take):
    def function(x, seen, i):
        seen.add_(1)
        return take(x, i)

    def run(f):
        seen, found = torch.zeros(1), []
        for place in (0, 9, 1):
            try:
                found.append(f(torch.ones(4), seen, torch.tensor([place])).tolist())
            except IndexError as error:
                found.append(str(error))
            found.append(seen.item())
        return found

    assert run(oxytorch.compile(function)) == run(function)
