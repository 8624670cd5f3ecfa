"""Generators that a call gives away are the program's: they are closed when it lets go of them, wherever that is, and work as those of CPython's do. Each
program is run plain and captured, and looked at call by call."""

import copy
import functools
import subprocess
import sys
import threading

import oxytorch
import pytest
import torch


class Holder:
    pass


def parts(x, log):
    """Stands in a context that the whole program sees."""
    with torch.no_grad():
        try:
            for n in range(5):
                yield x * n
        finally:
            log.append("closed")


def a_break():
    print(end="")


def ones():
    return torch.ones(2, requires_grad=True)


def told(function, calls=3):
    """What each call returns, what it does, and what is left of it when the caller has let go."""
    seen = []
    for _ in range(calls):
        log, holder = [], Holder()
        try:
            result = function(ones(), holder, log)
            log.append(("result", result.tolist(), result.requires_grad))
        except ValueError as error:
            log.append(("error", len(error.args)))
        log.append(("grad", torch.is_grad_enabled()))
        holder.__dict__.clear()
        log.append(("grad, behind", torch.is_grad_enabled()))
        torch.set_grad_enabled(True)
        seen.append(log)
    return seen


def begun(x, log):
    generator = parts(x, log)
    next(generator)
    return generator


def put_attribute(holder, generator):
    holder.g = generator


def put_list(holder, generator):
    holder.g = [generator]


def put_dict(holder, generator):
    holder.g = {"a": generator}


def put_tuple(holder, generator):
    holder.g = (generator,)


def put_zip(holder, generator):
    holder.g = zip([1, 2, 3], generator)


def put_partial(holder, generator):
    holder.g = functools.partial(next, generator)


def put_exception(holder, generator):
    holder.g = ValueError(generator)


def put_instance(holder, generator):
    holder.g = Holder()
    holder.g.inner = generator


def put_setattr(holder, generator):
    setattr(holder, "g", generator)


PUT = [put_attribute, put_list, put_dict, put_tuple, put_zip, put_partial, put_exception, put_instance, put_setattr]
HELD = pytest.mark.parametrize("put", PUT, ids=lambda put: put.__name__[4:])


def none(holder):
    holder.g = None


def delete(holder):
    del holder.g


def by_setattr(holder):
    setattr(holder, "g", 0)


def by_delattr(holder):
    delattr(holder, "g")


def clear(holder):
    holder.__dict__.clear()


def pop(holder):
    holder.__dict__.pop("g")


LET_GO = pytest.mark.parametrize("let_go", [none, delete, by_setattr, by_delattr, clear, pop], ids=lambda let_go: let_go.__name__)
BREAKS = pytest.mark.parametrize("breaks", [False, True], ids=["whole", "with a break"])


def same(function):
    assert told(oxytorch.compile(function)) == told(function)


@HELD
@BREAKS
def test_the_caller_lets_go(put, breaks):
    def function(x, holder, log):
        put(holder, begun(x, log))
        if breaks:
            a_break()
        return x * 2

    same(function)


@HELD
@LET_GO
@BREAKS
def test_the_function_lets_go(put, let_go, breaks):
    def function(x, holder, log):
        put(holder, begun(x, log))
        if breaks:
            a_break()
        let_go(holder)
        log.append("behind")
        return x * 2

    same(function)


@HELD
@BREAKS
def test_an_object_of_the_function_s_lets_go(put, breaks):
    def function(x, holder, log):
        own = Holder()
        put(own, begun(x, log))
        if breaks:
            a_break()
        own.g = None
        log.append("behind")
        return x * 2

    same(function)


def item_of_a_list(x, holder, log):
    holder.g = [begun(x, log)]
    a_break()
    holder.g[0] = None
    return x * 2


def all_of_a_list(x, holder, log):
    holder.g = [begun(x, log)]
    a_break()
    holder.g[:] = []
    return x * 2


def item_of_a_dict(x, holder, log):
    holder.g = {"a": begun(x, log)}
    a_break()
    holder.g["a"] = 1
    return x * 2


KEPT = None


def a_global(x, holder, log):
    global KEPT
    KEPT = begun(x, log)
    a_break()
    KEPT = None
    return x * 2


def a_cell(x, holder, log):
    kept = begun(x, log)

    def let_go():
        nonlocal kept
        kept = None

    a_break()
    let_go()
    return x * 2


def in_an_exception(x, holder, log):
    raise ValueError(begun(x, log))


def between_two_breaks(x, holder, log):
    holder.g = begun(x, log)
    a_break()
    y = x * 3
    holder.g = None
    a_break()
    return y + x


def moved_on_behind_a_break(x, holder, log):
    holder.g = begun(x, log)
    a_break()
    y = next(holder.g)
    holder.g = None
    return x * 2 + y


def two_of_them(x, holder, log):
    holder.g, holder.h = begun(x, log), begun(x, log)
    a_break()
    holder.g = None
    log.append("between")
    holder.h = None
    return x * 2


@pytest.mark.parametrize(
    "function",
    [item_of_a_list, all_of_a_list, item_of_a_dict, a_global, a_cell, in_an_exception, between_two_breaks, moved_on_behind_a_break, two_of_them],
)
def test_other_places_let_go(function):
    same(function)


def left_by_an_exception(x, holder, log):
    def inner():
        generator = begun(x, log)
        raise KeyError

    try:
        inner()
    except KeyError:
        log.append("handled")
        y = x * 2
    log.append("behind")
    return y


def left_by_an_exception_with_a_break(x, holder, log):
    def inner():
        generator = begun(x, log)
        raise KeyError

    try:
        inner()
    except KeyError:
        a_break()
        y = x * 2
    log.append("behind")
    return y


@pytest.mark.parametrize("function", [left_by_an_exception, left_by_an_exception_with_a_break])
def test_what_an_exception_leaves_lives_as_long_as_it(function):
    same(function)


def test_what_never_happened_closes_nothing():
    """The graph fails before anything can be seen of the call, and Python does it from the beginning."""

    def function(x, at, log):
        generator = begun(x, log)
        return next(generator)[at]

    def run(function, at):
        log = []
        try:
            log.append(function(ones(), torch.tensor([at]), log).tolist())
        except IndexError as error:
            log.append(type(error))
        torch.set_grad_enabled(True)
        return sorted(map(str, log))

    compiled = oxytorch.compile(function)
    for at in (7, 1, 7, 0, 9):
        assert run(compiled, at) == run(function, at)


def test_one_that_goes_with_the_program_does_no_harm():
    program = """
import torch, oxytorch
class Holder: pass
holder = Holder()
def parts(x):
    with torch.no_grad():
        yield x
        yield x
@oxytorch.compile
def function(x):
    holder.g = parts(x)
    next(holder.g)
    print(end="")
    return x * 2
function(torch.ones(1)), function(torch.ones(1))
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def given(x):
    generator = parts(x, [])
    next(generator)
    return generator


def numbers(x):
    iterator = iter([x, x + 1, x + 2])
    next(iterator)
    a_break()
    holder = Holder()
    holder.iterator = iterator
    return holder


def in_a_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found


def test_a_generator_is_moved_by_another_thread():
    compiled = oxytorch.compile(given)
    for _ in range(3):
        generator = compiled(torch.ones(1))
        torch.set_grad_enabled(True)
        assert [part.item() for [part] in [in_a_thread(lambda: next(generator)) for _ in range(3)]] == [1, 2, 3]
        assert in_a_thread(generator.close) == [None]
        torch.set_grad_enabled(True)


def test_an_iterator_is_moved_by_another_thread():
    compiled = oxytorch.compile(numbers)
    for _ in range(3):
        iterator = compiled(torch.ones(1)).iterator
        assert [part.item() for part in in_a_thread(lambda: next(iterator))] == [2]


def test_a_generator_goes_in_another_thread():
    compiled = oxytorch.compile(given)
    for _ in range(3):
        kept = [compiled(torch.ones(1))]
        torch.set_grad_enabled(True)
        in_a_thread(kept.clear)
        assert kept == []


def keep_iterator(x, holder):
    holder.it = iter([x, x + 1, x + 2, x + 3])
    next(holder.it)
    a_break()
    return x * 2


def keep_generator(x, holder):
    holder.it = parts(x, [])
    next(holder.it)
    a_break()
    return x * 2


def test_what_comes_out_behaves_as_cpython_s():
    x = torch.ones(1)
    for function in (keep_iterator, keep_generator):
        compiled = oxytorch.compile(function)
        for _ in range(3):
            ours, theirs = Holder(), Holder()
            compiled(x, ours), function(x, theirs)
            torch.set_grad_enabled(True)
            if function is keep_iterator:
                assert ours.it.__length_hint__() == theirs.it.__length_hint__() == 3
                other, third = copy.copy(ours.it), copy.copy(theirs.it)
                assert [t.item() for t in other] == [t.item() for t in third]
            else:
                for name in ("gi_running", "gi_suspended", "__name__", "__qualname__", "gi_code"):
                    assert getattr(ours.it, name) == getattr(theirs.it, name), name
                assert ours.it.gi_yieldfrom is None
            assert [t.item() for t in ours.it] == [t.item() for t in theirs.it]
            torch.set_grad_enabled(True)
