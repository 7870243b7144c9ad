"""Many to many: everyone in a room receives everyone else's messages."""
import asyncio

from pinnace import Client

PEOPLE = ["Ada", "Bo", "Cy", "Di"]
SAID_BY_EACH = 25
HEARD_BY_EACH = SAID_BY_EACH * (len(PEOPLE) - 1)


async def listen(person: Client) -> int:
    heard = 0
    async for delivery in person:
        with delivery:
            assert delivery.body.startswith(delivery.sender.encode())
            heard += 1
        if heard == HEARD_BY_EACH:
            break
    return heard


async def talk(name: str) -> int:
    with Client(name, "room") as person:
        await asyncio.to_thread(person.wait_listeners, "room", len(PEOPLE))
        for number in range(SAID_BY_EACH):
            person.send_all("room", f"{name} says {number}".encode())  # Not delivered to its sender.
        heard = await listen(person)
        # Stays until the others have acknowledged all.
        await asyncio.to_thread(person.wait_pending)
    return heard


async def main() -> None:
    heard = await asyncio.gather(*map(talk, PEOPLE))
    print(f"result messages={sum(heard)} expected={HEARD_BY_EACH * len(PEOPLE)}")


asyncio.run(main())
