"""The behaviours of draining and closing, as in suite.py."""
import errno

from check import expect
from driver import SOON_MS, Refused, refused
from suite import starts_when_free, until

# The errors of a close that leaves something. The Rust face has one error for all that times out.
LEFT = (errno.EAGAIN, errno.ETIMEDOUT)


def begun(driver):
    """Waits until a handler has a message."""
    until("a handler has it", lambda: driver.tell("in_hand", "receiver") == ["1"])


def a_handler_that_hangs_does_not_hang_a_close(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    for command, options in ((("close", "receiver"), ["handler_linger_ms=10"]), (("close_within", "receiver", 10), [])):
        driver.start("receiver", "news", *options)
        driver.tell("hang", "receiver", "-")
        driver.tell("send", "sender", "news", "=one")
        begun(driver)
        try:
            driver.tell(*command)
            expect(command[0] == "close", "something is left")
        except Refused as refusal:
            expect(refusal.number in LEFT, f"{refusal}")
        # A late acknowledgement counts.
        expect(driver.tell("pending", "sender") == ["1"], "it is not acknowledged yet")
        driver.tell("release")
        driver.settled("sender")
    driver.start("receiver", "news")
    driver.nothing_for("receiver")


def the_name_is_free_while_a_handler_hangs(open_driver):
    driver, other = open_driver(), open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("hang", "receiver", "-")
    driver.tell("send", "sender", "news", "=one")
    begun(driver)
    refused(LEFT, driver.tell, "close_within", "receiver", 0)
    other.start("receiver", "news", data="elsewhere")
    driver.tell("release")
    driver.settled("sender")


def draining_waits_for_what_is_in_hand(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("drain", "sender", 0)
    driver.tell("burst", "sender", "news", 3)
    held = driver.recv("receiver")
    refused(errno.EAGAIN, driver.tell, "drain", "receiver", 1)
    refused(errno.ECANCELED, driver.tell, "recv", "receiver", -1)
    expect(driver.tell("in_hand", "receiver") == ["1"], "it is in hand")
    driver.tell("send", "receiver", "s", "=result")
    driver.tell("ack", held.number)
    driver.tell("drain", "receiver", SOON_MS)
    driver.tell("drain", "receiver", SOON_MS)
    expect(driver.tell("in_hand", "receiver") == ["0"], "nothing is in hand")
    driver.tell("settle", "sender", 2, SOON_MS)
    driver.tell("close_within", "receiver", SOON_MS)
    driver.start("receiver", "news")
    expect(driver.tell("take", "receiver", 2) == ["1", "2"], "the others come, and the first does not come again")


def what_was_drained_is_not_delivered_after_a_kill(open_driver):
    sending, first = open_driver(), open_driver()
    sending.start("sender", "s")
    first.start("receiver", "news", "lease_ms=1000")
    sending.tell("burst", "sender", "news", 2)
    held = first.recv("receiver")
    first.tell("ack", held.number)
    first.tell("drain", "receiver", SOON_MS)
    first.kill()
    second = open_driver()
    starts_when_free(second, "receiver", "news")
    second.take("receiver", "=1")
    sending.settled("sender")


def a_handler_sends_while_its_client_drains(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("hang", "receiver", "s")
    driver.tell("send", "sender", "news", "=one")
    begun(driver)
    refused(errno.EAGAIN, driver.tell, "drain", "receiver", 0)
    driver.tell("send", "sender", "news", "=two")
    driver.tell("release")
    driver.take("sender", "=one")
    driver.tell("drain", "receiver", SOON_MS)
    driver.tell("settle", "sender", 1, SOON_MS)
    expect(driver.tell("pending", "sender") == ["1"], "nothing new is delivered")
    driver.tell("close_within", "receiver", SOON_MS)


def a_handler_closes_its_client(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("close_by_handler", "receiver", SOON_MS)
    driver.tell("send", "sender", "news", "=one")
    driver.tell("closed")
    driver.settled("sender")
    driver.start("receiver", "news")
    driver.nothing_for("receiver")


def several_threads_close_a_client(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("hang", "receiver", "-")
    driver.tell("send", "sender", "news", "=one")
    begun(driver)
    driver.tell("release")
    driver.tell("close_twice", "receiver", SOON_MS)
    driver.start("receiver", "news")
    driver.nothing_for("receiver")


BEHAVIOURS = [thing for thing in list(globals().values()) if getattr(thing, "__module__", "") == __name__
              and thing is not begun]
