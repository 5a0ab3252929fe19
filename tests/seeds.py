"""Seeds of random cases."""

from hypothesis import settings

_MORE = 20


def seeds(count: int) -> range:
    """Return so many seeds; under the profile `thorough`, many times as many."""
    return range(count * _MORE if settings.get_current_profile_name() == "thorough" else count)
