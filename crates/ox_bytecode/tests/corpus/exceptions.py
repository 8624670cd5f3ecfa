"""Raising, catching, context managers."""


def caught(f):
    try:
        f()
    except ValueError as error:
        return error
    except (TypeError, KeyError):
        raise
    else:
        f(1)
    finally:
        f(2)


def raised(x):
    if x:
        raise ValueError("x") from x
    raise ValueError


def grouped(f):
    try:
        f()
    except* ValueError as error:
        f(error)
    except* TypeError:
        pass


def managed(f, g):
    with f() as a, g():
        if a:
            return a
        f(a)
    return None


def nested(xs):
    for x in xs:
        try:
            with x:
                continue
        except OSError:
            break
        finally:
            x.close()
    try:
        [x for x in xs]
    except Exception:
        pass
