"""How many random cases tests try: a few that are always the same, or many with `HYPOTHESIS_PROFILE=thorough`."""

import os

from hypothesis import settings

settings.register_profile("quick", deadline=None, max_examples=80, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
