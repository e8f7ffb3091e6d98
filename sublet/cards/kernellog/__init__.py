"""The kernel log as a source of observations: `/dev/kmsg`, or a file or FIFO of the same records."""

from sublet.cards.kernellog.reader import KernelLog

__all__ = ["KernelLog"]
