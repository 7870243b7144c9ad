"""Statistics of clients, as in suite.py."""
import errno
import json
import urllib.error
import urllib.request

from check import expect
from driver import SOON_MS, refused, same_body
from exposition import read
from suite import listening, until


def statistics_of(driver, client):
    return json.loads(" ".join(driver.tell("statistics", client)))


def to(driver, client, topic, receiver):
    """What a client has sent on a topic to a receiver."""
    sent = statistics_of(driver, client)["outgoing"]
    found = [of for of in sent if (of["topic"], of["receiver"]) == (topic, receiver)]
    expect(len(found) == 1, f"{client} to {receiver}: {found}")
    return found[0]


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=SOON_MS / 1000) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def both_sides_count(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news", "max_deliveries=1")
    for spec in ("=one", "=two", "3000000:1"):
        driver.tell("send", "sender", "news", spec)
    first = driver.recv("receiver")
    connected = to(driver, "sender", "news", "receiver")
    expect((connected["connection"], connected["reason"]) == ("connected", None), f"{connected}")
    # Messages to one are counted under no receiver.
    sent = to(driver, "sender", "news", None)
    expect(sent["pending"] == 3, f"{sent}")
    expect(sent["pending_bytes"] > 3 * 64 and sent["oldest_age_ms"] < SOON_MS, f"{sent}")
    (received,) = statistics_of(driver, "receiver")["incoming"]
    expect((received["sender"], received["in_hand"], received["connected"]) == ("sender", 1, True), f"{received}")
    driver.tell("fail", first.number)
    driver.take("receiver", "=two")
    driver.take("receiver", "3000000:1")
    until("all to be settled", lambda: to(driver, "sender", "news", None)["pending"] == 0)
    sent = to(driver, "sender", "news", None)
    expect((sent["acknowledged"], sent["dead_letters"], sent["accepted"]) == (2, 1, 3), f"{sent}")
    (received,) = statistics_of(driver, "receiver")["incoming"]
    counts = [received[name] for name in ("received", "delivered", "acknowledged", "failed", "given_up", "in_hand")]
    expect(counts == [3, 3, 2, 1, 1, 0], f"{received}")
    store = statistics_of(driver, "sender")["store"]
    expect(store["disk_bytes"] > 0 and store["syncs"] > 0, f"{store}")
    expect(4 << 20 <= store["disk_limit_bytes"] <= 4 << 30, f"{store}")
    refused(errno.ENOENT, driver.tell, "metrics", "sender")


def what_expires_is_a_dead_letter(open_driver):
    driver = open_driver()
    driver.start("sender", "s", "dead_letter_expired=1")
    driver.start("receiver", "news")
    driver.start("undertaker", "news.dead")
    listening(driver, "sender", "news", 1)
    listening(driver, "sender", "news.dead", 1)
    ttl_ms = 1000
    driver.tell("with", "sender", "news", "=late", 1, 0, ttl_ms, SOON_MS)
    refused(errno.EAGAIN, driver.tell, "recv", "undertaker", ttl_ms + 10)
    refused(errno.EAGAIN, driver.tell, "recv", "receiver", 0)
    letter = driver.recv("undertaker")
    same_body(letter, "=late")
    found = driver.tell("dead", letter.number)
    expect(found == ["news", "receiver", "0", "4"], f"{found}")
    driver.tell("ack", letter.number)
    driver.settled("sender")
    sent = to(driver, "sender", "news", "receiver")
    # By the sender's clock, if the message was sent late.
    expect(sent["expired"] + sent["expired_at_receiver"] == 1 and sent["acknowledged"] == 0, f"{sent}")


def statistics_are_scraped(open_driver):
    driver = open_driver()
    refused(errno.EINVAL, driver.start, "sender", "s", "metrics=nowhere")
    driver.start("sender", "s", "metrics=127.0.0.1:0")
    (address,) = driver.tell("metrics", "sender")
    refused(errno.EADDRINUSE, driver.start, "other", "o", f"metrics={address}")
    driver.tell("send", "sender", "news", "=one")
    kind, text = get(address, "/metrics")
    expect(kind.startswith("text/plain; version=0.0.4"), kind)
    families = read(text)
    labels = {"client": "sender", "topic": "news", "receiver": ""}
    found = families["pinnace_delivery_pending_messages"].samples
    expect([value for of, value in found if of == labels] == [1.0], f"{found}")
    kind, text = get(address, "/statistics")
    found = json.loads(text)
    expect(kind == "application/json" and found["client"] == "sender", text)
    expect([of["pending"] for of in found["outgoing"]] == [1], text)
    try:
        get(address, "/")
    except urllib.error.HTTPError as error:
        expect(error.code == 404, f"{error}")
    else:
        expect(False, "/ is served")


BEHAVIOURS = [both_sides_count, what_expires_is_a_dead_letter, statistics_are_scraped]
