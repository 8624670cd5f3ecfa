"""Raising, catching, context managers."""


def attempt(log, error):
    try:
        log.append("try")
        if error:
            raise error
    except ValueError as e:
        log.append(("value", str(e)))
        return "returned"
    except (TypeError, KeyError):
        log.append("reraised")
        raise
    else:
        log.append("else")
    finally:
        log.append("finally")
    return "end"


def case_caught():
    log, results = [], []
    for error in [None, ValueError("v"), TypeError("t"), KeyError, OSError("o")]:
        try:
            results.append(attempt(log, error))
        except Exception as e:
            results.append(repr(e))
    return log, results


def case_cause():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        return repr(outer), repr(outer.__cause__)


def case_unhandled():
    raise LookupError("gone")


def case_name_is_deleted():
    try:
        raise ValueError
    except ValueError as error:
        pass
    return error


def case_finally_returns():
    for x in range(3):
        try:
            if x == 1:
                continue
            if x == 2:
                return "try"
        finally:
            if x == 2:
                return "finally"


class Manager:
    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self.name

    def __exit__(self, kind, error, traceback):
        self.log.append(("exit", self.name, kind and kind.__name__, str(error), traceback is not None))
        return self.swallow


def case_managers():
    log = []
    with Manager(log, "a") as a, Manager(log, "b", swallow=True):
        log.append(a)
        raise ValueError("x")
    for _ in range(2):
        with Manager(log, "c"):
            break
    with Manager(log, "d", swallow=True):
        with Manager(log, "e"):
            log.missing
    return log


def leaves(log):
    with Manager(log, "f") as f:
        return f


def case_return_through_a_manager():
    log = []
    return leaves(log), log


def case_manager_that_lets_pass():
    log = []
    with Manager(log, "g"):
        raise KeyError(1)


def group(errors, log):
    try:
        if errors:
            raise ExceptionGroup("g", errors)
        raise ValueError("bare")
    except* ValueError as e:
        log.append([str(x) for x in e.exceptions])
    except* TypeError:
        log.append("type")
    return "handled"


def case_groups():
    log, results = [], []
    for errors in [[], [ValueError("a"), TypeError("b")], [TypeError("c")], [ValueError("d"), OSError("e")]]:
        try:
            results.append(group(errors, log))
        except ExceptionGroup as left:
            results.append([repr(e) for e in left.exceptions])
    return log, results


def case_comprehension_that_raises():
    x = "kept"
    try:
        [1 / x for x in (1, 0)]
    except ZeroDivisionError:
        return x


def case_nested_handlers():
    log = []
    try:
        raise ValueError(1)
    except ValueError:
        try:
            raise TypeError(2)
        except TypeError as e:
            log.append(str(e))
        try:
            raise
        except ValueError as e:
            log.append(str(e))
    return log
