"""`make models`: 90 models under `oxytorch.compile` against eager PyTorch, with TorchDynamo's number of graphs beside ours.

    python benches/models.py [--only NAME,...] [--missing] [--sides SIDE,...] [--dynamo] [--report] [--limit SECONDS]

Each model runs in a process of its own, forked from one that has imported the libraries. Writes benches/results/models.json after each, and
docs/models.md once all models are in it. `--only` does some again, `--missing` goes on with a run of this build that was stopped.
TorchDynamo is asked behind all others, and only for models whose answer is not known from an earlier run with the same versions of the
libraries, unless `--dynamo` is given.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import pathlib
import signal
import sys
import time
import traceback
from typing import Any, Callable

import amx

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benches/results/models.json"
LOGS = ROOT / "benches/results/models"
MODELS = ("transformers", "timm", "torchvision", "workloads")
LIBRARIES = ("torch", "transformers", "timm", "torchvision", "torch_geometric")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: [part for part in text.split(",") if part]
    parser.add_argument("--only", type=listed, default=[], help="names, or parts of them, with commas between")
    parser.add_argument("--missing", action="store_true", help="only what this build has not done yet")
    parser.add_argument("--sides", type=listed, default=["oxytorch", "dynamo"], help="of oxytorch,dynamo")
    parser.add_argument("--dynamo", action="store_true", help="ask TorchDynamo again too")
    parser.add_argument("--report", action="store_true", help="write the page from what is known")
    parser.add_argument("--limit", type=float, default=100, help="seconds for one model in TorchDynamo; oxytorch has three times that")
    options = parser.parse_args()
    amx.avoid_if_broken()
    LOGS.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not options.report:
        sweep(options, results, build(), versions())
    print(write(results))


def write(results: dict[str, dict]) -> str:
    """Writes the page if all models are known; the summary in any case."""
    import models_report

    known = {name: results[name] for name in entries() if "oxytorch" in results.get(name, {})}
    if len(known) == len(entries()):
        (ROOT / "docs").mkdir(exist_ok=True)
        (ROOT / "docs/models.md").write_text(models_report.page(known, summary(known)))
    return summary(known)


def entries() -> dict:
    import models_more
    import models_table

    return models_table.ENTRIES | models_more.ENTRIES


def build() -> str:
    """Which build of oxytorch this is."""
    import oxytorch

    return hashlib.sha256(pathlib.Path(oxytorch._oxytorch.__file__).read_bytes()).hexdigest()[:12]


def versions() -> str:
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)


def sweep(options, results: dict[str, dict], build: str, versions: str) -> None:
    """All of oxytorch first, then what TorchDynamo has not been asked yet."""
    import oxytorch, timm, torchvision, transformers  # noqa: E401, F401  so that no process pays for it
    import models_check

    wanted = lambda name: not options.only or any(part in name for part in options.only)
    chosen = {name: entry for name, entry in entries().items() if wanted(name)}
    checks = dict(oxytorch=models_check.check_oxytorch, dynamo=models_check.check_dynamo)
    for side, check in ((side, checks[side]) for side in options.sides):
        if side == "dynamo":
            # Not before: who compiles with oxytorch does not load it.
            import torch._dynamo  # noqa: F401
        for name, entry in chosen.items():
            result = results.setdefault(name, dict(library=entry.library, name=entry.name, kind=entry.kind))
            known = result.get(side, {}).get("of") == (build if side == "oxytorch" else versions)
            if known and (options.missing if side == "oxytorch" else not options.dynamo):
                continue
            limit = options.limit * 3 if side == "oxytorch" else options.limit
            result[side] = alone(check, entry, LOGS / f"{entry.library}.{entry.name}.{side}.log", limit)
            result[side]["of"] = build if side == "oxytorch" else versions
            RESULTS.write_text(json.dumps(results, indent=1))
            print(line(side, name, result[side]), flush=True)


def alone(check: Callable[..., None], entry, log: pathlib.Path, limit: float) -> dict[str, Any]:
    """What a check reports from a process of its own, and how that ended: "fine", an exception, a signal, or "too slow"."""
    answers = log.with_suffix(".json")
    answers.write_text("{}")
    process = multiprocessing.get_context("fork").Process(target=child, args=(check, entry, log, answers))
    process.start()
    process.join(limit)
    late = process.is_alive()
    if late:
        process.kill()
    process.join()
    report = json.loads(answers.read_text())
    if late:
        report["ended"] = f"too slow: {limit:.0f} s"
    elif process.exitcode:
        report["ended"] = report.get("ended") or ended_by(process.exitcode)
    return {"ended": "fine"} | report


def ended_by(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def child(check: Callable[..., None], entry, log: pathlib.Path, answers: pathlib.Path) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    faulthandler.enable(file=out)
    answer: dict[str, Any] = {}

    def report(**facts: Any) -> None:
        answer.update(facts)
        temporary = answers.with_suffix(".new")
        temporary.write_text(json.dumps(answer))
        temporary.rename(answers)

    try:
        check(entry, report)
    except BaseException as error:
        traceback.print_exc()
        report(ended=f"{type(error).__name__}: {error}"[:600])
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def equal(ours: dict) -> bool:
    return ours["ended"] == "fine" and all(ours.get(step) is None for step in ("first", "second", "changed"))


def whole(ours: dict) -> bool:
    """Equal to eager, in one graph that was traced once, by kernels and not by eager."""
    return equal(ours) and ours["graphs"] == 1 and ours["traced"] == 1 and not ours["breaks"] and not ours["fallbacks"]


def summary(results: dict[str, dict]) -> str:
    """Of whole models, each called once; then of the others: decoding is many calls, of which each may be another graph."""
    done = [result for result in results.values() if "oxytorch" in result]
    ours = [result["oxytorch"] for result in done if result["library"] in MODELS]
    rest = [result["oxytorch"] for result in done if result["library"] not in MODELS]
    share = 100 * sum(map(whole, ours)) / max(len(ours), 1)
    text = f"{sum(map(equal, ours))} of {len(ours)} models equal to eager, {sum(map(whole, ours))} in one graph ({share:.1f} %)"
    return f"{text}; of message passing and decoding {sum(map(equal, rest))} of {len(rest)} equal"


def line(side: str, name: str, found: dict) -> str:
    state = "ok   " if equal(found) else "WRONG" if found["ended"] == "fine" else "FAIL "
    counts = f"{found.get('graphs')} graphs, {len(found.get('breaks', []))} breaks, first call {found.get('first_s', 0):.1f} s"
    text = f"{time.strftime('%H:%M:%S')} {state} {name} ({side}): {counts}"
    notes = [found["ended"]] if found["ended"] != "fine" else [found[s] for s in ("first", "second", "changed") if found.get(s)]
    notes += [f"{where}: {why}" for where, why in found.get("breaks", [])[:2]] + found.get("fallbacks", [])[:2]
    return "\n      ".join([text] + [note.strip().replace("\n", " ")[:300] for note in notes])


if __name__ == "__main__":
    main()
