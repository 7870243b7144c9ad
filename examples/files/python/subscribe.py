"""Subscribes to a folder: fetches it, and then whatever changes in it, until the program is stopped.

python3 subscribe.py tcp://127.0.0.1:5670 /photos/ copy
"""
import asyncio
import sys

from pinnace.files import Aborted, Client, Current, Deletion, Failed, Finished, Moved, Removed, Rules


async def subscribe(endpoint: str, path: str, to: str) -> None:
    # A mirror: what the server removes is removed here too.
    with Client(endpoint) as client, client.follow(path, to, Rules(deletion=Deletion())) as transfer:
        async for event in transfer:
            if isinstance(event, Current):
                print("current", flush=True)
            elif isinstance(event, Finished):
                print("changed", event.path, flush=True)
            elif isinstance(event, Removed):
                print("removed", event.path, flush=True)
            elif isinstance(event, Moved):
                print("moved", event.source, "to", event.target, flush=True)
            elif isinstance(event, Failed):
                print(f"{event.path}: {event.error.strerror}", flush=True)
            elif isinstance(event, Aborted):
                raise event.error


asyncio.run(subscribe(*sys.argv[1:]))
