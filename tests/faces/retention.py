"""How long subscriptions last and messages are kept, as in suite.py."""
import errno

from check import expect
from driver import SOON_MS, refused
from suite import listening, starts_when_free, until


def a_closed_subscriber_misses_nothing(open_driver):
    """An orderly close keeps its subscriptions, as a kill does, unless it is not durable."""
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("durable", "d", "topic=news")
    driver.start("transient", "t", "topic=news", "durable=0")
    driver.tell("subscribe", "durable", "weather")
    listening(driver, "sender", "weather", 1)
    driver.tell("wait_listeners", "sender", "news", 2, SOON_MS)
    driver.tell("close", "durable")
    driver.tell("close", "transient")
    listening(driver, "sender", "news", 0)
    expect(driver.tell("all", "sender", "news", "=one") == ["1"], "one receiver")
    expect(driver.tell("all", "sender", "weather", "=two") == ["1"], "one receiver")
    driver.start("transient", "t", "topic=news", "durable=0")
    driver.start("durable", "d")
    heard = sorted(driver.tell("take", "durable", 2))
    expect(heard == ["one", "two"], f"{heard}")
    driver.settled("sender")
    driver.nothing_for("transient")
    driver.tell("unsubscribe", "durable", "weather")
    until("the end of it", lambda: driver.tell("all", "sender", "weather", "=three") == ["0"])


def what_is_sent_to_nobody_is_kept_for_those_to_come(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    for number in range(3):
        expect(driver.tell("all", "sender", "news", f"={number}") == ["0"], "nobody is known")
    for client in ("one", "two"):
        driver.start(client, "news")
        got = driver.tell("take", client, 3)
        expect(got == ["0", "1", "2"], f"{got}")
        driver.settled("sender")
        driver.nothing_for(client)


def more_than_is_kept_is_dropped(open_driver):
    """Of five messages of 1,064 bytes each, three fit. The limits are checked when the clients change."""
    driver = open_driver()
    driver.start("sender", "s", "retain_bytes=3500")
    for number in range(5):
        expect(driver.tell("all", "sender", "news", f"1000:{number}") == ["0"], "nobody is known")
    driver.start("other", "o")
    until("two to be dropped", lambda: driver.tell("pending", "sender") == ["3"])
    driver.start("receiver", "news")
    for number in range(2, 5):
        driver.take("receiver", f"1000:{number}")
    driver.settled("sender")


def what_is_too_old_is_dropped_for_the_absent(open_driver):
    driver = open_driver()
    driver.start("sender", "s", "retain_for_ms=200")
    driver.start("receiver", "news")
    listening(driver, "sender", "news", 1)
    driver.tell("close", "receiver")
    listening(driver, "sender", "news", 0)
    expect(driver.tell("all", "sender", "news", "=old") == ["1"], "it is kept for the receiver")
    driver.settled("sender")
    driver.start("receiver", "news")
    driver.nothing_for("receiver")


def a_forgotten_subscriber_has_no_messages_kept(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("gone", "g", "topic=news", "lease_ms=1000")
    listening(driver, "sender", "news", 1)
    refused(errno.EEXIST, driver.tell, "forget", "sender", "gone")
    driver.tell("close", "gone")
    listening(driver, "sender", "news", 0)
    expect(driver.tell("all", "sender", "news", "=one") == ["1"], "it is kept for it")
    driver.tell("forget", "sender", "gone")
    driver.settled("sender")
    expect(driver.tell("all", "sender", "news", "=two") == ["0"], "no receiver is left")
    starts_when_free(driver, "gone", "g", "topic=news")
    driver.take("gone", "=two")


BEHAVIOURS = [
    a_closed_subscriber_misses_nothing,
    what_is_sent_to_nobody_is_kept_for_those_to_come,
    more_than_is_kept_is_dropped,
    what_is_too_old_is_dropped_for_the_absent,
    a_forgotten_subscriber_has_no_messages_kept,
]
