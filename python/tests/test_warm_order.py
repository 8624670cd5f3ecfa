"""Patterns for names of functions, as `scripts/warm_order.py` writes them."""

import importlib.util
import pathlib
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/warm_order.py"
NAMES = {
    "_RNvMNtCs7BMxp6oehEA_10ox_capture6sharedNtB3_8Branches4push": "_RNvMNtCs*_10ox_capture6sharedNtB*_8Branches4push",
    "_RINvCsgEmfK2I1SDS_4pyo33newINtNtB2_8instance5BoundNtNtB4_3any5PyAnyEEB0_": "_RINvCs*_4pyo33newINtNtB*_8instance5BoundNtNtB*_3any5PyAnyEEB*_",
    "_RINvMs0_NtCs12_8ox_gauge8portraitNtB2_5Group12holds_widestKj2_EB4_": "_RINvMs0_NtCs*_8ox_gauge8portraitNtB*_5Group12holds_widestKj2_EB*_",
    "_RNvCs1_4core9_B5_named": "_RNvCs*_4core9_B5_named",
    "_ZN4core3ptr17h0123456789abcdefE": "_ZN4core3ptr17h*",
    "memcpy": "memcpy",
}


@pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")
@pytest.mark.parametrize("name", NAMES)
def test_identifiers_are_kept(name):
    spec = importlib.util.spec_from_file_location("warm_order", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.pattern(name) == NAMES[name]
