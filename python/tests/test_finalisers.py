"""What objects do when they go, by a `__del__` of the program's: done when CPython does it, in every call."""

import copy
import gc

import oxytorch
import pytest
import torch


def x():
    return torch.arange(12.0).reshape(3, 4)


class Counted:
    alive = 0

    def __init__(self, tensor):
        self.tensor = tensor * 2
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


def test_objects_that_are_told_when_they_go_are_made_in_every_call():
    captured = oxytorch.compile(lambda tensor: Counted(tensor).tensor + 1)
    for _ in range(4):
        assert torch.equal(captured(x()), x() * 2 + 1)
        assert Counted.alive == 0


class Told:
    def __init__(self, log, name, inner=None):
        self.log, self.name, self.inner = log, name, inner

    def __del__(self):
        self.log.append(self.name)


class Loud(Told):
    def __del__(self):
        print(self.name)
        super().__del__()


class Stays(Told):
    def __del__(self):
        super().__del__()
        self.log.append(self)


def let_go_one_by_one(tensor, log):
    a, b = Told(log, "a"), Told(log, "b")
    tensor = tensor + 1
    del a
    log.append("between")
    b = None
    log.append("behind")
    return tensor * 2


def let_go_with_a_frame(tensor, log):
    def inner():
        a, b = Told(log, "a"), Told(log, "b", Told(log, "inner"))
        log.append("inside")
        return tensor * len(a.name + b.name)

    return inner(), list(log)


def let_go_with_containers(tensor, log):
    several = [Told(log, 1), Told(log, 2), Told(log, 3)]
    several.pop()
    log.append("popped")
    several[0] = None
    named = {"k": Told(log, 4)}
    named["k"] = Told(log, 5)
    pair = (Told(log, 6), Told(log, 7))
    pair = None
    return tensor + len(several), list(log), named


def let_go_in_a_loop(tensor, log):
    for n in range(3):
        told = Told(log, n)
        tensor = tensor * told.name
        log.append(("round", n))
    return tensor, Told(log, "at once").name, list(log)


def let_go_with_a_closure(tensor, log):
    def make():
        told = Told(log, "told")
        return lambda: tensor + len(told.name)

    function = make()
    tensor = function()
    function = None
    return tensor, list(log)


def let_go_behind_a_break(tensor, log):
    told = Told(log, "told")
    tensor = tensor * tensor.sum().item()
    print("in the middle")
    tensor = tensor + 1
    told = None
    log.append("behind")
    return tensor


def let_go_loudly(tensor, log):
    first, second = Loud(log, "first"), Loud(log, "second")
    tensor = tensor * 2
    del first
    log.append("between")
    return tensor + 1


def let_go_of_what_stays(tensor, log):
    stays = Stays(log, "stays")
    del stays
    back = log.pop()
    back.name = "once"
    return tensor * len(log), back.name


def let_go_with_a_dict(tensor, log):
    table = {"a": Told(log, "first"), "b": Told(log, "second"), "c": {"d": Told(log, "third"), "e": Told(log, "fourth")}}
    print("in the middle")
    del table["b"]
    log.append("between")
    table = None
    log.append("behind")
    return tensor + 1


def let_go_in_the_order_of_a_dict(tensor, log):
    first, second, third = (Told(log, name) for name in ("first", "second", "third"))
    table = {"a": third, "b": first}
    del first, third
    table = None
    log.append("behind")
    table = {"a": Told(log, "fourth"), "b": Told(log, "fifth")}
    table.clear()
    log.append("cleared")
    return tensor + 1


def let_go_with_the_frame_that_has_a_dict(tensor, log):
    table = {name: Told(log, name) for name in ("first", "second", "third")}
    print(len(table))
    return tensor * 2


class Plain:
    pass


class Becomes:
    def __del__(self):
        self.log.append("told")


def of_another_class(tensor, log):
    told = Plain()
    told.__class__ = Becomes
    told.log = log
    tensor = tensor * 2
    del told
    log.append("behind")
    other = Plain()
    other.log, other.__class__ = log, Becomes
    print("in the middle")
    other = None
    log.append("behind the break")
    return tensor


def given_away(tensor, log):
    return tensor * 2, Told(log, "given")


@pytest.mark.parametrize(
    "function",
    [
        let_go_one_by_one,
        let_go_with_a_frame,
        let_go_with_containers,
        let_go_in_a_loop,
        let_go_with_a_closure,
        let_go_behind_a_break,
        let_go_loudly,
        let_go_of_what_stays,
        let_go_with_a_dict,
        let_go_in_the_order_of_a_dict,
        let_go_with_the_frame_that_has_a_dict,
        of_another_class,
        given_away,
    ],
)
def test_objects_are_told_when_they_go(function, capsys):
    captured = oxytorch.compile(function)
    for _ in range(4):
        told = []
        for called in (function, captured):
            log = []
            result = called(x(), log)
            shown = [part.tolist() if isinstance(part, torch.Tensor) else str(type(part)) for part in (result if isinstance(result, tuple) else [result])]
            others = [part for part in result if isinstance(part, list)] if isinstance(result, tuple) else []
            result = None
            told.append((shown, others, [entry for entry in log if not isinstance(entry, Told)], capsys.readouterr().out))
            log.clear()
        assert told[0] == told[1]


def test_an_object_that_is_told_when_it_goes_is_no_break():
    log = []

    def function(tensor):
        told = Told(log, "gone")
        return tensor * len(told.name)

    captured = oxytorch.compile(function, fullgraph=True)
    for calls in range(1, 4):
        assert torch.equal(captured(x()), x() * 4)
        assert log == ["gone"] * calls


def test_objects_in_a_circle_are_told_by_the_collector_of_garbage():
    log = []

    def function(tensor):
        one, other = Told(log, "one"), Told(log, "other")
        one.inner, other.inner = other, one
        return tensor * 2

    captured = oxytorch.compile(function)
    for calls in range(1, 4):
        assert torch.equal(captured(x()), x() * 2)
        gc.collect()
        assert sorted(log) == ["one"] * calls + ["other"] * calls


def test_copies_are_told_that_nobody_holds_them():
    log = []

    class Told:
        def __del__(self):
            log.append("told")

    def copies(x):
        first = Told()
        second = copy.copy(first)
        del second
        log.append("between")
        del first
        return x + 1

    fast = oxytorch.compile(copies)
    for _ in range(3):
        fast(torch.ones(2))
        assert log == ["told", "between", "told"]
        log.clear()
