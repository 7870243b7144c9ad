"""One to many: an agency sends its news to all newspapers that listen."""
from contextlib import ExitStack

from pinnace import Client

NEWS = 100
NAMES = ["Morning Post", "Evening Star", "Gazette"]

with ExitStack() as stack:
    papers = [stack.enter_context(Client(name, "news")) for name in NAMES]
    agency = stack.enter_context(Client("agency", "tips"))
    # Clients discover each other a moment after their start.
    agency.wait_listeners("news", len(papers))
    for number in range(NEWS):
        last = agency.send_async("news", str(number).encode(), all=True)
    agency.wait(last)  # Once the last message is on the disk, all are.
    printed = 0
    for paper in papers:
        for number in range(NEWS):
            with paper.recv() as piece:
                assert piece.body == str(number).encode(), f"{paper.name} has all in order"
            printed += 1
    agency.wait_pending()
print(f"result messages={printed} expected={NEWS * len(NAMES)}")
