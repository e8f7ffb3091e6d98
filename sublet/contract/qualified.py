"""Names as Kubernetes qualifies them: of labels, taints and resources, with or without a domain."""

import re

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_DOMAIN = 253


def is_domain(text: str) -> bool:
    """Whether it is a DNS name in small letters."""
    return len(text) <= _LONGEST_DOMAIN and bool(_DOMAIN.fullmatch(text))


def is_qualified(text: str, *, with_domain: bool = False) -> bool:
    """Whether Kubernetes takes `text` as a key, which is ``name`` or ``domain/name``."""
    domain, slash, name = text.rpartition("/")
    if not slash:
        return not with_domain and bool(_NAME.fullmatch(text))
    return is_domain(domain) and bool(_NAME.fullmatch(name))
