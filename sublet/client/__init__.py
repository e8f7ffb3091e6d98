"""The public subscriber: what happens to cards, shares and pods, as it happens.

async for event in sublet.client.events("nats://nats.sublet-system:4222", kinds=["health"]):
    print(event.time, event.card, event.data["from"], "->", event.data["to"])
"""

from sublet.client.subscriber import Client, PublicEvent, events

__all__ = ["Client", "PublicEvent", "events"]
