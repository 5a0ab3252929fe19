"""Calibrates worst cases: widens them while too many pods exceed them, and narrows them while too few do.

Quantiles of parts do not add up to the quantile of the whole, and a ring of fifty samples is a rough one. So the
distance between expected and worst case is multiplied by a factor that each outcome moves a little; in the long run
that holds nine times in ten for every distribution.
"""

import math

_GAIN = 0.02
_TARGET = 0.9
_LEAST, _MOST = 0.25, 4.0


def calibrated(excess: float, within: float) -> float:
    """Return the factor after an outcome: the share of pods within their worst case, from 0 to 1."""
    return min(_MOST, max(_LEAST, excess * math.exp(_GAIN * (_TARGET - within))))
