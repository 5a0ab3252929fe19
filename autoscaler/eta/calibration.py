"""Calibrates worst cases: widens them while too many pods exceed them, and narrows them while too few do.

The sum of the parts' quantiles is not the quantile of the whole, and fifty samples in a ring are few. So the distance
between expected and worst case is multiplied by a factor, and each outcome changes the factor a little. In the long
run, nine of ten pods stay within their worst case, for every distribution.
"""

import math

_GAIN = 0.02
_TARGET = 0.9
_LEAST, _MOST = 0.25, 4.0


def calibrated(excess: float, within: float) -> float:
    """Return the factor after an outcome, which is the share of pods within their worst case, from 0 to 1."""
    return min(_MOST, max(_LEAST, excess * math.exp(_GAIN * (_TARGET - within))))
