"""The provider conformance suite: `run_checks(harness, CHECKS)`, or one check per pytest case with `run_check`."""

from cloudprovider.conformance.bench import Check, Result, run_check, run_checks
from cloudprovider.conformance.checks import CHECKS
from cloudprovider.conformance.harness import CountsCalls, Harness, PlainHarness, open_harness
from cloudprovider.conformance.memory import MemoryNodeApi
from cloudprovider.conformance.objects import MemoryObjectApi

__all__ = [
    "CHECKS",
    "Check",
    "CountsCalls",
    "Harness",
    "MemoryNodeApi",
    "MemoryObjectApi",
    "PlainHarness",
    "Result",
    "open_harness",
    "run_check",
    "run_checks",
]
