"""Some virtual machines announce AMX but do not let programs use it: torch's own bf16 matrix products then die of an illegal
instruction. Where that is so, oneDNN is told not to use AMX, before torch reads the setting."""

import os
import pathlib
import subprocess
import sys

PROBE = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"


def avoid_if_broken() -> None:
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not _announced():
        return
    if subprocess.run([sys.executable, "-c", PROBE], capture_output=True).returncode < 0:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"


def _announced() -> bool:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    return cpuinfo.exists() and "amx_bf16" in cpuinfo.read_text()
