"""The behaviours of the readiness descriptor, and of deliveries that are given back, as in suite.py."""
import errno

from check import expect
from driver import SOON_MS, Refused, refused


def readable(driver, timeout_ms, wanted):
    found = driver.tell("poll", "receiver", timeout_ms)
    expect(found == [str(int(wanted))], f"readable: {found}")


def cleared(driver):
    """A receive that finds nothing clears the descriptor."""
    driver.nothing_for("receiver")
    readable(driver, 0, False)


def a_descriptor_is_readable_while_messages_are_left(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    readable(driver, 0, True)
    cleared(driver)
    driver.tell("burst", "sender", "news", 3)
    readable(driver, SOON_MS, True)
    driver.take("receiver", "=0")
    readable(driver, 0, True)
    expect(driver.tell("take", "receiver", 2) == ["1", "2"], "the others")
    cleared(driver)
    driver.tell("send", "sender", "news", "3000000:5")
    readable(driver, SOON_MS, True)
    driver.take("receiver", "3000000:5")
    cleared(driver)
    driver.settled("sender")


def next_time(driver):
    """The message, when it is due again. A receive that comes too early clears the descriptor."""
    try:
        return driver.recv("receiver", 0)
    except Refused as refusal:
        expect(refusal.number == errno.EAGAIN, f"{refusal}")
    readable(driver, SOON_MS, True)
    return driver.recv("receiver", 0)


def a_descriptor_is_readable_when_a_message_is_due_again(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("poll", "receiver", 0)
    driver.tell("send", "sender", "news", "=one")
    got = driver.recv("receiver")
    for count, settle in enumerate((("nack", 20), ("fail",), ("nack", -1), ("nack", 100), ("fail",)), 1):
        expect(got.count == count, f"{got}: it is delivery {count}")
        cleared(driver)
        driver.tell(settle[0], got.number, *settle[1:])
        if count % 2:
            readable(driver, SOON_MS, True)
        got = next_time(driver)
    driver.tell("ack", got.number)
    driver.settled("sender")


def a_descriptor_is_readable_when_a_handler_takes_too_long(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news", "ack_within_ms=20")
    driver.tell("poll", "receiver", 0)
    driver.tell("send", "sender", "news", "=one")
    late = driver.recv("receiver")
    again = next_time(driver)
    expect((late.count, again.count) == (1, 2), f"{late} {again}")
    driver.tell("ack", late.number)
    driver.tell("ack", again.number)
    driver.settled("sender")


def a_descriptor_is_readable_at_the_end(open_driver):
    driver = open_driver()
    driver.start("receiver", "news")
    readable(driver, 0, True)
    cleared(driver)
    driver.tell("drain", "receiver", SOON_MS)
    for _ in range(2):
        readable(driver, 0, True)
        refused(errno.ECANCELED, driver.tell, "recv", "receiver", 0)
    driver.tell("close_within", "receiver", SOON_MS)
    refused((errno.ECANCELED, errno.EFAULT), driver.tell, "recv", "receiver", 0)


def what_is_given_back_is_not_counted(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news", "max_deliveries=2", "ack_within_ms=60000")
    driver.tell("poll", "receiver", 0)
    for spec in ("=first", "3000000:5", "=last"):
        driver.tell("send", "sender", "news", spec)
    for _ in range(5):
        held = [driver.recv("receiver") for _ in range(3)]
        driver.nothing_for("receiver")
        readable(driver, 0, False)
        for at in (1, 0, 2):
            driver.tell("give_back", held[at].number)
            readable(driver, SOON_MS, True)
        expect(driver.tell("in_hand", "receiver") == ["0"], "nothing is in hand")
        refused(errno.EFAULT, driver.tell, "give_back", held[0].number)
    for spec in ("=first", "3000000:5", "=last"):
        expect(driver.take("receiver", spec).count == 1, "it was never counted")
    driver.settled("sender")


def what_was_given_back_outlives_a_close(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("burst", "sender", "news", 2)
    held = driver.recv("receiver")
    refused(errno.EAGAIN, driver.tell, "drain", "receiver", 1)
    driver.tell("give_back", held.number)
    driver.tell("close_within", "receiver", SOON_MS)
    driver.start("receiver", "news")
    expect(driver.tell("take", "receiver", 2) == ["0", "1"], "both, in order")
    driver.settled("sender")


BEHAVIOURS = [thing for name, thing in list(globals().items()) if name.startswith(("a_", "what_"))]
