"""Fetches a file or a folder, and prints how far it is.

python3 fetch.py tcp://127.0.0.1:5670 /photos/ copy
"""
import sys

from pinnace.files import Aborted, Client, Ended, Failed, Finished, Progress

endpoint, path, to = sys.argv[1:]
arrived = 0
with Client(endpoint) as client:
    # With a slash at the end of the path, what is in the folder goes to `to`; without, the folder itself.
    for event in client.get(path, to):
        if isinstance(event, Progress):
            arrived += event.bytes
            print(f"\r{arrived} bytes", end="", file=sys.stderr)
        elif isinstance(event, Finished):
            print(event.path)
        elif isinstance(event, Failed):  # The others go on.
            print(f"{event.path}: {event.error.strerror}")
        elif isinstance(event, Ended):
            print(f"result files={event.files} failed={event.failed}")
            sys.exit(1 if event.failed else 0)
        elif isinstance(event, Aborted):  # What has arrived stays, and the next transfer goes on from there.
            sys.exit(event.error.strerror)
