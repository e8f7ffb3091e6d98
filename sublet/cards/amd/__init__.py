"""AMD cards as the kernel shows them in sysfs, and as AMD's metrics exporter judges them where it runs."""

from sublet.cards.amd.source import AmdCards

__all__ = ["AmdCards"]
