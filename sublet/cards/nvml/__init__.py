"""NVIDIA cards through NVML; the binding keeps one library a process, so one source may be open at a time."""

from sublet.cards.nvml.source import NvmlCards

__all__ = ["NvmlCards"]
