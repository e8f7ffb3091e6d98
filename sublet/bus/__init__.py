"""The bus: a port, its adapter for a nats-server, and its twin in memory.

Use `open_bus` in a service, `MemoryBus` in a test, and `Bus` as the type everywhere.
"""
