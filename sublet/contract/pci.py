"""PCI addresses in one form, however a driver, a kernel line or a person writes them."""

import re

_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.(?P<function>[0-7]))?"
)


def pci_address(text: str) -> str | None:
    """`text` as ``dddd:bb:dd.f`` in lower case; None where it is no PCI address.

    Drivers print eight digits of domain, kernel lines leave out the function, people the domain.
    """
    found = _ADDRESS.fullmatch(text.strip().removeprefix("PCI:").lower())
    if found is None:
        return None
    domain, bus, device = (int(found[part] or "0", 16) for part in ("domain", "bus", "device"))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{found['function'] or '0'}"
