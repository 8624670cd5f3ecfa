"""Small functions, each captured and compared with plain CPython: result, exception, effects, identity, on first and later calls.

The cases are in `semantics/cases/`. They run in processes of their own, one a subject: a case that crashes fails alone.
`python -m semantics calls.positional` in this folder shows one of them.
"""

import functools
import pathlib
import sys

import pytest
from semantics.isolate import END, run
from semantics.runner import load

CASES = load()
VERSION = "{}.{}".format(*sys.version_info)
KNOWN = pathlib.Path(__file__).parent / "semantics" / "known.txt"


def known(section):
    """The cases that the file of known faults lists under a heading, for this version of Python."""
    part = KNOWN.read_text().split(f"## {section}\n")[1].split("##")[0]
    lines = [line.split() for line in part.splitlines() if line]
    return {name for name, *versions in lines if not versions or VERSION in versions}


def marked(faulty):
    """All cases; those that are known to fail must."""
    subjects = {case.subject for case in CASES.values()}
    unknown = {name for name in faulty - set(CASES) if name.partition(".")[0] in subjects}
    assert not unknown, f"unknown cases in {KNOWN.name}: {unknown}"
    mark = pytest.mark.xfail(strict=True, reason=f"stands in {KNOWN.name}")
    return [pytest.param(name, marks=mark if name in faulty else ()) for name in CASES]


@functools.cache
def reports(subject):
    """What came of the cases of a subject, by name."""
    names = [name for name, case in CASES.items() if case.subject == subject]
    return {report["case"]: report for report in run(names)}


@pytest.mark.parametrize("name", marked(known("not as CPython")))
def test_as_cpython(name):
    report = reports(CASES[name].subject)[name]
    assert report["status"] == "same", "\n".join([report["status"], *report["lines"]])


@pytest.mark.parametrize("name", marked(known("as CPython, but captured worse than it should be")))
def test_captured_as_well_as_expected(name):
    report = reports(CASES[name].subject)[name]
    assert not report["complaints"], "\n".join(report["complaints"])


@pytest.mark.parametrize("subject", sorted({case.subject for case in CASES.values()}))
def test_the_process_ends_well(subject):
    report = reports(subject).get(END)
    assert report is None, "\n".join(report["lines"])
