"""Producers and consumers: each job goes to the first worker that is free, and is done by one."""
from contextlib import ExitStack

from pinnace import Client, Delivery

JOBS_OF_EACH = 150
done = set()


def work(job: Delivery) -> None:
    """Returning acknowledges the job. If this raises, the job is redelivered."""
    done.add((job.sender, int(job.body)))


with ExitStack() as stack:
    workers = [stack.enter_context(Client(name, "jobs")) for name in ("Ann", "Ben", "Cat")]
    for worker in workers:
        worker.listen(work)  # On a thread of its own, until the client is closed.
    producers = [stack.enter_context(Client(name, f"{name}'s")) for name in ("mill", "forge")]
    for number in range(JOBS_OF_EACH):
        for producer in producers:
            producer.send_to("jobs", str(number).encode())
    for producer in producers:
        producer.wait_pending()
print(f"result messages={len(done)} expected={len(producers) * JOBS_OF_EACH}")
