"""Which violations follow from which: a consequence is not told beside its cause."""

from __future__ import annotations

from collections.abc import Mapping

_NO_SUCH_TYPE = ("TMA010",)

# By code: the causes that bring it about. A cause is enforced by the same authority or by one that speaks earlier, so a
# verdict never hangs on what is left out; a consequence that has another cause too comes back once this one is gone.
# In the 171,898 measured requests TMA017 always brings TMA021, TMA042 does in 99% of cases, and what packed types want
# never comes without TMA010 on chips that lack them.
FOLLOWS: Mapping[str, tuple[str, ...]] = {
    # A box that is too long along one axis is too large as a whole.
    "TMA017": ("TMA003",),
    "TMA021": ("TMA003", "TMA017", "TMA040", "TMA041", "TMA042"),
    "TMA042": ("TMA040", "TMA041"),
    # An interleave that does not exist wants no rank.
    "TMA016": ("TMA012",),
    # What packed types want where there are none.
    "TMA030": _NO_SUCH_TYPE,
    "TMA031": _NO_SUCH_TYPE,
    "TMA032": _NO_SUCH_TYPE,
    "TMA033": _NO_SUCH_TYPE,
    "TMA034": _NO_SUCH_TYPE,
    "TMA035": _NO_SUCH_TYPE,
    # Packed types want multiples of 32 bytes, and 128 elements.
    "TMA004": ("TMA031",),
    "TMA005": ("TMA032",),
    "TMA008": ("TMA033",),
    # Of an execution: overlaps that loads may have; an address that misses the pattern because it misses 128 bytes.
    "TMA023": ("COPY009",),
    "COPY005": ("COPY004",),
}
