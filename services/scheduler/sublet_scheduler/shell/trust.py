"""What the API server shall trust: the CAs of the secret, and for a while those that it trusted before.

A secret that was deleted or replaced by hand gives all replicas another signer, and each of them learns of it
at a time of its own. Until then it serves under the old one, which therefore must not vanish at once.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

LINGER = timedelta(seconds=60)
"""How long a CA stays trusted that the secret does not name any more."""


@dataclass(slots=True)
class Trust:
    _left: dict[bytes, datetime] = field(default_factory=dict)
    """When a CA that is trusted was first seen not to be the secret's."""

    def wanted(self, ours: bytes, present: list[bytes], now: datetime) -> list[bytes]:
        """The bundle that each webhook shall have, for those that are `present`; all are PEM."""
        known = set(_certificates(ours))
        others = [[one for one in _certificates(bundle) if one not in known] for bundle in present]
        strangers = {one for some in others for one in some}
        self._left = {one: self._left.get(one, now) for one in strangers}
        return [ours + b"".join(one for one in some if now < self._left[one] + LINGER) for some in others]


def _certificates(bundle: bytes) -> list[bytes]:
    """Each certificate of a bundle; none where somebody wrote something else there."""
    try:
        return [one.public_bytes(Encoding.PEM) for one in x509.load_pem_x509_certificates(bundle)]
    except ValueError:
        return []
