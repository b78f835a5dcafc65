"""Words of a question that do not describe what is searched for."""

from __future__ import annotations

STOP_WORDS = frozenset(
    """
    a about above after again against ain all am an and any are aren as at
    be because been before being below between both but by
    can cannot could couldn
    d did didn do does doesn doing don down during
    each ever every
    few for from further
    had hadn has hasn have haven having he her here hers herself him himself his how
    i if in into is isn it its itself
    just
    ll
    m me might mightn more most must mustn my myself
    needn no nor not now
    of off on once only or other our ours ourselves out over own
    re
    s same shall shan she should shouldn so some such
    t tell than that the their theirs them themselves then there these they this those through to too
    under until up
    ve very
    was wasn we were weren what when where which while who whom whose why will with won would wouldn
    you your yours yourself yourselves
    """.split()  # noqa: SIM905 - a list that is read as a list
)
"""English function words, as they are after splitting at an apostrophe ("didn't": didn, t); "may" is a month, too."""
