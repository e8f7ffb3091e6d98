"""Sublet lets part of a card: GPU sharing and scheduling for Kubernetes on one bus."""

__version__ = "0.1.0"
