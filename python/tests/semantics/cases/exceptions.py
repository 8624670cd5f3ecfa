"""Exceptions: try, except, else, finally, raise, with, groups."""

import contextlib

from ..case import ANY, case, made
from ..values import x


@case(lambda: (x(), 0), lambda: (x(), 1))
def try_except(a, n):
    try:
        return a * (1 / n)
    except ZeroDivisionError:
        return a


@case(lambda: (x(), 0), lambda: (x(), 1))
def try_except_else_finally(a, n):
    log = []
    try:
        1 / n
    except ZeroDivisionError:
        log.append("except")
    else:
        log.append("else")
    finally:
        log.append("finally")
    return a, log


@case(lambda: (x(), "key"), lambda: (x(), "index"), lambda: (x(), "other"))
def several_handlers(a, kind):
    try:
        if kind == "key":
            {}["k"]
        elif kind == "index":
            [][1]
        else:
            int("x")
    except KeyError as error:
        return a, "key", error.args
    except (IndexError, TypeError) as error:
        return a, "index", str(error)
    except Exception as error:
        return a, type(error).__name__, str(error)


@case(x)
def uncaught(a):
    raise ValueError("not caught", 3)


@case(x)
def uncaught_class(a):
    raise ValueError


@case(x)
def uncaught_from_a_helper(a):
    def helper():
        return {}[1]

    return helper()


@case(x)
def raised_after_effects(a):
    box = [a]
    box.append(a + 1)
    raise RuntimeError(box)


@case(lambda: ([], x()))
def effects_before_an_exception_stay(box, a):
    box.append(a)
    box.append(a * 2)
    raise RuntimeError("behind the effects")


class Problem(Exception):
    def __init__(self, code, value):
        super().__init__(f"code {code}")
        self.code = code
        self.value = value


@case(x)
def own_exception(a):
    try:
        raise Problem(7, a)
    except Problem as problem:
        return problem.code, problem.value is a, str(problem), problem.args


class Custom(Exception):
    def __init__(self, code):
        self.code = code

    def __str__(self):
        return f"custom {self.code}"


@case(x)
def own_exception_uncaught(a):
    raise Custom(5)


@case(x)
def reraise(a):
    try:
        raise ValueError("again")
    except ValueError:
        raise


@case(x)
def reraise_from_a_helper(a):
    def helper():
        raise  # noqa: PLE0704

    try:
        raise KeyError("k")
    except KeyError:
        helper()


@case(x)
def nothing_to_reraise(a):
    raise  # noqa: PLE0704


@case(x)
def raise_from(a):
    try:
        [][0]
    except IndexError as error:
        raise RuntimeError("outer") from error


@case(x)
def raise_from_none(a):
    try:
        [][0]
    except IndexError:
        raise RuntimeError("outer") from None


@case(x)
def context_is_set(a):
    try:
        [][0]
    except IndexError:
        raise RuntimeError("while handling")


@case(x)
def context_chain_is_seen(a):
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            {}["k"]
    except KeyError as error:
        return a, type(error.__context__).__name__, error.__cause__, error.__suppress_context__


@case(x)
def context_is_cleared_behind_the_handler(a):
    try:
        1 / 0
    except ZeroDivisionError:
        pass
    try:
        {}["k"]
    except KeyError as error:
        return a, error.__context__


@case(x)
def raise_something_else(a):
    raise 3


@case(x)
def raise_from_something_else(a):
    raise ValueError from 3


@case(x)
def except_something_else(a):
    try:
        raise ValueError("v")
    except 3:
        return a


@case(x)
def name_is_deleted_behind_the_handler(a):
    try:
        raise ValueError
    except ValueError as error:
        error
    return error


@case(x)
def finally_returns_over_an_exception(a):
    try:
        raise ValueError
    finally:
        return a + 1


@case(x)
def finally_returns_over_a_return(a):
    try:
        return a
    finally:
        return a + 1


@case(x)
def finally_sees_the_return_value_fixed(a):
    value = a
    try:
        return value
    finally:
        value = a + 100


@case(x)
def finally_with_break_and_continue(a):
    log = []
    for n in range(4):
        try:
            if n == 1:
                continue
            if n == 3:
                break
            log.append(n)
        finally:
            log.append(-n)
    return a, log


@case(x)
def nested_finally(a):
    log = []
    try:
        try:
            try:
                raise KeyError("inner")
            finally:
                log.append(1)
        finally:
            log.append(2)
    except KeyError as error:
        log.append(error.args)
    return a, log


@case(x)
def exception_in_finally(a):
    try:
        try:
            raise ValueError("first")
        finally:
            raise KeyError("second")
    except KeyError as error:
        return a, str(error.__context__)


@case(x)
def exception_in_else_is_not_caught_there(a):
    try:
        try:
            pass
        except ValueError:
            return "wrong"
        else:
            raise ValueError("else")
    except ValueError as error:
        return a, str(error)


@case(x)
def handler_in_a_loop(a):
    for text in ("1", "x", "3"):
        try:
            a = a + int(text)
        except ValueError:
            a = a * 2
    return a


@case(lambda: (x(), 1), lambda: (x(), 0))
def exception_crosses_frames(a, n):
    def inner(n):
        if n == 0:
            raise LookupError("zero")
        return a / n

    def middle(n):
        try:
            return inner(n)
        finally:
            log.append("left")

    log = []
    try:
        return middle(n), log
    except LookupError as error:
        return str(error), log


@case(x)
def subclass_is_caught_by_base(a):
    try:
        {}["k"]
    except LookupError as error:
        return a, type(error) is KeyError, isinstance(error, Exception)


@case(x)
def handler_by_variable(a):
    kinds = (KeyError, ValueError)
    try:
        int("q")
    except kinds as error:
        return a, error.__class__.__name__


@case(x)
def bare_except(a):
    try:
        raise KeyboardInterrupt
    except:  # noqa: E722
        return a


@case(x)
def keyboard_interrupt_passes_except_exception(a):
    try:
        raise KeyboardInterrupt("stop")
    except Exception:
        return a


@case(x)
def system_exit(a):
    raise SystemExit(3)


@case(x)
def assertion(a):
    assert a is None, f"a is {type(a) is None}"


@case(x)
def assertion_holds(a):
    assert a is not None
    return a + 1


@case(x)
def notes(a):
    try:
        error = ValueError("v")
        error.add_note("a note")
        raise error
    except ValueError as caught:
        return a, caught.__notes__, caught is error


@case(x, graphs=ANY)
def with_traceback(a):
    try:
        raise ValueError("v").with_traceback(None)
    except ValueError as error:
        return a, error.__traceback__ is not None


@case(x)
def exception_as_a_value(a):
    error = ValueError("kept", a)
    return error, [error], isinstance(error, ValueError), repr(KeyError("k"))


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append((kind and kind.__name__, str(value), trace is not None))
        return self.swallow


@case(x)
def with_statement(a):
    log = []
    with Manager(log) as manager:
        log.append("body")
        a = a + 1
    return a, log, manager.swallow


@case(x)
def with_swallows(a):
    log = []
    with Manager(log, True):
        raise ValueError("swallowed")
    return a, log


@case(x)
def with_lets_through(a):
    log = []
    try:
        with Manager(log):
            raise ValueError("passes")
    except ValueError as error:
        return a, log, str(error)


@case(x)
def with_uncaught(a):
    with Manager([]):
        raise KeyError("passes")


@case(x)
def with_two_managers(a):
    log, other = [], []
    with Manager(log, True) as first, Manager(other) as second:
        raise ValueError(first is second)
    return a, log, other


@case(x)
def with_returns_inside(a):
    log = []

    def inner():
        with Manager(log):
            return a * 2

    return inner(), log


@case(x)
def with_break_inside(a):
    log = []
    for n in range(3):
        with Manager(log):
            if n == 1:
                break
    return a * n, log


class BrokenEnter:
    def __enter__(self):
        raise RuntimeError("enter")

    def __exit__(self, *_):
        return True


@case(x)
def with_raises_in_enter(a):
    with BrokenEnter():
        return a


class BrokenExit:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        raise RuntimeError("exit")


@case(x)
def with_raises_in_exit(a):
    with BrokenExit():
        raise ValueError("body")


@case(x)
def with_needs_the_protocol(a):
    with a.__class__:
        return a


@contextlib.contextmanager
def tracked(log, name):
    log.append(f"in {name}")
    try:
        yield name
    except KeyError:
        log.append("key")
    finally:
        log.append(f"out {name}")


@case(x)
def contextmanager_function(a):
    log = []
    with tracked(log, "p") as name:
        a = a + len(name)
    with tracked(log, "q"):
        raise KeyError
    return a, log


@case(x)
def contextmanager_lets_others_through(a):
    log = []
    try:
        with tracked(log, "p"):
            raise ValueError("v")
    except ValueError:
        return a, log


@case(x)
def suppress_and_null(a):
    with contextlib.suppress(KeyError, IndexError):
        {}["k"]
    with contextlib.nullcontext(a) as b:
        return b is a


@case(x)
def exit_stack(a):
    log = []
    with contextlib.ExitStack() as stack:
        for name in "pq":
            stack.enter_context(tracked(log, name))
        stack.callback(log.append, "callback")
    return a, log


class Thing:
    closed = False

    def close(self):
        self.closed = True


@case(x)
def closing(a):
    with contextlib.closing(Thing()) as thing:
        before = thing.closed
    return a, before, thing.closed


@case(x)
def group_is_split(a):
    log = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError("k"), ValueError(2)])
    except* ValueError as group:
        log.append([str(error) for error in group.exceptions])
    except* KeyError as group:
        log.append(type(group).__name__)
    return a, log


@case(x)
def group_remains(a):
    try:
        raise ExceptionGroup("many", [ValueError(1), TypeError(2)])
    except* ValueError:
        pass


@case(x)
def plain_exception_meets_a_group_handler(a):
    try:
        raise ValueError("alone")
    except* ValueError as group:
        found = type(group).__name__, group.exceptions[0].args
    return a, found


@case(x)
def nested_groups(a):
    inner = ExceptionGroup("inner", [OSError("o")])
    group = ExceptionGroup("outer", [ValueError("v"), inner])
    match, rest = group.split(OSError)
    return a, match.message, [type(error).__name__ for error in rest.exceptions]


@made(lambda: (x(), 1), lambda: (x(), 0))
def exception_only_sometimes():
    log = []

    def step(a, n):
        log.append(n)
        b = a / 2
        if n == 0:
            raise ValueError("n is zero")
        return b * n

    return step


class Empty:
    pass


@case(x)
def attribute_error(a):
    return Empty().missing


@case(x)
def type_error_of_an_operator(a):
    return "text" + 1


@case(x)
def unpack_too_few(a):
    p, q = [a]
    return p


@case(x)
def unpack_too_many(a):
    p, q = [a, a, a]
    return p


# As deep as CPython goes the machine does not: it says so, and CPython runs the function.
@case(x, eager=True)
def recursion_error_is_caught(a):
    def forever(n):
        return forever(n + 1)

    try:
        forever(0)
    except RecursionError as error:
        return a, type(error).__name__


@case(x, graphs=ANY)
def import_inside(a):
    import math as m
    from os.path import join

    try:
        import there_is_no_such_module  # noqa: F401
    except ImportError as error:
        return a, m.pi, join("p", "q"), type(error).__name__, error.name
