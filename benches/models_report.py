"""docs/models.md: the table of `make models`, and why a model is not one graph."""

from __future__ import annotations

import collections
import os
import pathlib
import platform
import re

import models

LIBRARIES = ("transformers", "timm", "torchvision", "workloads", "torch_geometric", "decoding")

HEAD = """# Models under `oxytorch.compile`

    make models

builds {count} models from their configurations with random weights and small sizes, and runs each in a process of its own under
`oxytorch.compile` and under TorchDynamo with a backend that runs its graphs as they are. **{summary}.**

*Equal*: two calls with the same inputs and one with other values give eager's structure, dtypes, shapes, strides and values, by the
rule of `python/tests/compare.py`. *Graphs* and *breaks* are those of the first call; *traced* says for how many of the three calls something
had to be traced, in `generate` for how many steps. *Trace* is what capture needs from Python function to graph, *Dynamo's trace* its first
call less its second, both in seconds of the processor, so that others on the machine do not count; *ratio* is the second by the first.
The first call is in seconds of the clock. One measurement each, on {machine}, which others used too;
TorchDynamo's are kept from run to run as long as the versions of the libraries are the same.

**Dynamo's tracing takes {ratio} times as long as ours in the median**; less than ten times in {slow} of {compared}.

{builds}"""


def page(results: dict[str, dict], summary: str) -> str:
    ratios = sorted(r for r in map(ratio, results.values()) if r is not None)
    middle = f"{ratios[len(ratios) // 2]:.0f}" if ratios else "?"
    slow = sum(r < 10 for r in ratios)
    facts = dict(ratio=middle, slow=slow, compared=len(ratios), builds=builds(results))
    parts = [HEAD.format(count=len(results), summary=summary, machine=machine(), **facts)]
    for library in LIBRARIES:
        entries = [result for result in results.values() if result["library"] == library]
        if entries:
            parts += [f"## {library}\n\n", table(entries), "\n"]
    parts += ["## What is not one graph, and why\n\n", reasons(results)]
    return "".join(parts)


def builds(results: dict[str, dict]) -> str:
    count = len({result["oxytorch"].get("of") for result in results.values()})
    return "" if count == 1 else f"Put together from runs of {count} builds.\n\n"


def machine() -> str:
    import torch

    names = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()) or [platform.machine()]
    return f"{os.cpu_count()} cores of {names[0]}, torch {torch.__version__}, Python {platform.python_version()}"


def table(entries: list[dict]) -> str:
    names = "model kind equal graphs breaks traced trace first_call Dynamo's_graphs Dynamo's_trace ratio".split()
    head = f"| {' | '.join(names)} |\n|---|---|---{'|--:' * 8}|\n".replace("_", " ")
    return head + "".join(map(row, entries))


def row(result: dict) -> str:
    ours, dynamo = result["oxytorch"], result.get("dynamo", {})
    cells = [result["name"], result["kind"], verdict(ours), ours.get("graphs"), breaks(ours), ours.get("traced")]
    cells += [seconds(trace(ours)), seconds(ours.get("first_s"))]
    cells += [dynamo_graphs(dynamo), seconds(dynamo_trace(dynamo))]
    cells += [None if ratio(result) is None else f"{ratio(result):.0f}"]
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |\n"


def dynamo_graphs(dynamo: dict) -> int | str | None:
    ended = dynamo.get("ended", "fine")
    return dynamo.get("graphs") if ended == "fine" else "too slow" if ended.startswith("too slow") else "fails"


def verdict(ours: dict) -> str:
    if ours["ended"] != "fine":
        return "**fails**"
    if not models.equal(ours):
        return "**no**"
    return "yes, by eager" if ours["fallbacks"] else "yes"


def breaks(ours: dict) -> int | None:
    return len(ours["breaks"]) if "breaks" in ours else None


def trace(ours: dict) -> float | None:
    return ours.get("trace_s")


def ratio(result: dict) -> float | None:
    """How many times our tracing Dynamo's takes."""
    own, other = trace(result["oxytorch"]), dynamo_trace(result.get("dynamo", {}))
    return other / own if own and other else None


def dynamo_trace(dynamo: dict) -> float | None:
    rest = dynamo["first_s"] - dynamo["second_s"] if "second_s" in dynamo else 0.0
    return rest if rest > 0 else None


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def reasons(results: dict[str, dict]) -> str:
    """Models by what keeps them from one graph."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    for name, result in results.items():
        for reason in dict.fromkeys(objections(result["oxytorch"])):
            found[reason].append(name.split("/")[1])
    if not found:
        return "Nothing.\n"
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return "".join(f"- {reason}: {', '.join(names)}\n" for reason, names in ordered)


def objections(ours: dict) -> list[str]:
    ended = [first_line(ours["ended"])] if ours["ended"] != "fine" else []
    wrong = [f"wrong on the {step} call: {first_line(ours[step])}" for step in ("first", "second", "changed") if ours.get(step)]
    broken = [f"{first_line(why)} ({short(where)})" for where, why in ours.get("breaks", [])[:3]]
    again = ["traced more than once"] if ours.get("traced", 1) > 1 and not broken else []
    return ended + wrong + broken + again + [first_line(text) for text in ours.get("fallbacks", [])]


def first_line(text: str) -> str:
    lines = re.sub(r"/\S*site-packages/", "", text).strip().splitlines()
    return lines[0][:140] if lines else "?"


def short(where: str) -> str:
    """A place in an installed library, from the library's name on."""
    return re.sub(r"^.*(site-packages|lib/python3\.\d+)/", "", where)
