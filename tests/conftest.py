"""What holds for every test: how many random cases are tried, and what the terminal is.

The random cases are a few that are always the same, or many with `HYPOTHESIS_PROFILE=thorough`.
"""

import os

from hypothesis import settings

settings.register_profile("quick", deadline=None, max_examples=80, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Outputs have the width and the colours that a test asks for, not those of the terminal or of the program it runs in.
for _name in ("COLUMNS", "NO_COLOR"):
    os.environ.pop(_name, None)
