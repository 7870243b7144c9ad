"""The behaviours of every face of file transfer: one function each. A behaviour runs in its own directory, and gets
`face`, with the driver of a face there (commands.py)."""
import errno
import os
import subprocess

from check import expect
from driver import SOON_MS, refused


def codes(report):
    """The errno of each file that failed."""
    return [number for number, _ in report.failed.values()]


def a_file_is_fetched(face):
    face.write(a="content")
    face.serve()
    report = face.run("get", "/data/a", face.target)
    expect(report == (1, 7, {}), f"{report}")
    expect(face.target.read_bytes() == b"content", "the content")
    # It is here: nothing is fetched.
    report = face.run("get", "/data/a", face.target)
    expect(report == (0, 0, {}), f"{report}")


def a_tree_is_fetched(face):
    large = bytes(range(256)) * 4000
    face.write(a="one", d__b="two", d__e__large=large)
    (face.source / "link").symlink_to("a")
    face.serve()
    report = face.get()
    expect(report.failed == {} and report.bytes == 6 + len(large), f"{report}")
    expect(face.tree() == face.tree(face.source), f"{list(face.tree())}")
    expect(os.readlink(face.target / "link") == "a", "the link")
    expect(int(face.tell("sent", "server")[0]) >= report.bytes, "what the server has sent")


def events_are_told(face):
    large = bytes(3_000_000)
    face.write(large=large)
    face.serve()
    face.tell("get", "transfer", "client", "/data/large", face.target)
    found = face.events("ended")
    begun = [event for event in found if event[0] == "begun"]
    expect(begun == [["begun", "/data/large", str(len(large))]], f"{begun}")
    expect(sum(int(event[1]) for event in found if event[0] == "progress") == len(large), f"{found}")
    finished = [event[1:] for event in found if event[0] == "finished"]
    expect([event[:2] for event in finished] == [["/data/large", str(len(large))]], f"{finished}")
    expect(len(finished[0][2]) == 64, f"{finished}")
    expect(found[-1] == ["ended", "1", str(len(large)), "0"], f"{found[-1]}")
    expect(face.tell("next", "transfer", SOON_MS) == [], "the transfer is over")
    expect(face.wait() == (1, len(large), {}), "the report is there afterwards")
    face.tell("close", "transfer")


def events_are_iterated(face):
    face.write(a=bytes(2_000_000))
    face.serve()
    for way in ("events", "async"):
        target = face.place / way
        face.tell("get", way, "client", "/data/a", target)
        found = face.tell(way, way)
        expect(found == ["begun", "finished", "ended"], f"{way}: {found}")
        expect(target.stat().st_size == 2_000_000, way)
        face.tell("close", way)


def a_tree_is_uploaded(face):
    face.serve(kind="writable")
    for name in ("a", "d/b"):
        path = face.place / "new" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    report = face.run("put", f"{face.place}/new/", "/data/in")
    expect(report.files == 2 and report.failed == {}, f"{report}")
    expect(face.tree(face.source) == {"in/a": b"a", "in/d/b": b"d/b"}, f"{face.tree(face.source)}")


def names_are_listed(face):
    face.write(a="one", d__b="two")
    (face.source / "link").symlink_to("a")
    os.chmod(face.source / "a", 0o640)
    os.utime(face.source / "a", ns=(0, 1_600_000_000_123_456_789))
    face.serve()
    face.tell("list", "transfer", "client", "/data/")
    found = {event[1]: event[2:] for event in face.events("ended") if event[0] == "listed"}
    expect(found["a"] == ["file", "3", "640", "1600000000123456789", "-"], f"{found}")
    expect(found["link"][0] == "link" and found["link"][-1] == "a", f"{found}")
    expect(found["d"][0] == "directory" and found["d/b"][0] == "file", f"{found}")
    report = face.wait()
    expect(report.files == 4, f"{report}")


def what_is_fetched_may_be_discarded(face):
    face.write(a="content")
    face.serve()
    expect(face.run("discard", "/data/") == (1, 7, {}), "the report")
    expect(not face.target.exists(), "nothing is here")


def a_path_is_followed(face):
    face.write(a="old", gone="x")
    face.serve("quiet_ms=50")
    face.tell("follow", "transfer", "client", "/data/", face.target, "deletion=1")
    face.events("current")
    expect(face.tree() == {"a": b"old", "gone": b"x"}, f"{face.tree()}")
    face.write(a="new content")
    finished = face.events("finished")[-1]
    expect(finished[1].endswith("a"), f"{finished}")
    expect((face.target / "a").read_bytes() == b"new content", "the change")
    (face.source / "gone").unlink()
    removed = face.events("removed")[-1]
    expect(removed[1].endswith("gone") and removed[2] == "1", f"{removed}")
    (face.source / "a").rename(face.source / "b")
    moved = face.events("moved")[-1]
    expect(moved[1].endswith("a") and moved[2].endswith("b") and moved[3] == "1", f"{moved}")
    refused(errno.EAGAIN, face.tell, "wait", "transfer", 0)
    face.tell("cancel", "transfer")
    expect(face.events("aborted")[-1] == ["aborted", str(errno.ECANCELED)], "it is cancelled")
    refused(errno.ECANCELED, face.wait)


def a_followed_path_waits_for_its_server(face):
    face.write(a="a")
    serve = ["serve", "server", f"folder=/data@{face.source}", f"bind=ipc://{face.place}/server"]
    endpoint, = face.tell(*serve)
    face.tell("connect", "client", endpoint, "patience_ms=2000")
    face.tell("follow", "transfer", "client", "/data/", face.target)
    face.events("current")
    face.tell("stop", "server")
    expect(face.events("lost")[-1] == ["lost", str(errno.EHOSTUNREACH)], "it is lost")
    face.write(b="b")
    face.tell(*serve)
    face.events("current")
    expect(face.tree() == {"a": b"a", "b": b"b"}, f"{face.tree()}")


def a_transfer_is_cancelled_by_another_thread(face):
    face.write(a="x")
    face.serve()
    # It does not end by itself.
    face.tell("follow", "transfer", "client", "/data/", face.target)
    refused(errno.ECANCELED, face.tell, "interrupt", "transfer")
    face.tell("close", "transfer")
    expect(face.get().failed == {}, "the client goes on")


def a_mirror_removes(face):
    face.write(a="a", b="b")
    face.serve()
    face.get()
    (face.source / "a").unlink()
    (face.source / "b").unlink()
    face.write(c="c")
    expect(codes(face.get("deletion=1", "deletion_most=1")) == [errno.E2BIG], "two would be removed")
    expect(sorted(face.tree()) == ["a", "b", "c"], f"{face.tree()}")
    expect(face.get().failed == {} and sorted(face.tree()) == ["a", "b", "c"], "without deletion nothing is removed")
    expect(face.get("deletion=1", "deletion_most=2").failed == {}, "two may be removed")
    expect(sorted(face.tree()) == ["c"], f"{face.tree()}")
    # An empty source is an error, unless it is forced.
    (face.source / "c").unlink()
    expect(codes(face.get("deletion=1")) == [errno.EACCES], "the source is empty")
    expect(face.get("deletion=1", "deletion_force=1").failed == {} and not face.tree(), f"{face.tree()}")


def names_are_left_out(face):
    face.write(a="a", b__log="b", keep__log="k")
    for name in ("one.log", "two.log", "d/three.log"):
        path = face.source / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    face.serve()
    report = face.get("include=one.log", "exclude=*.log", "exclude=/b/")
    expect(report.failed == {}, f"{report}")
    expect(sorted(face.tree()) == ["a", "keep/log", "one.log"], f"{sorted(face.tree())}")


def files_that_are_here_are_kept_or_replaced(face):
    face.write(a="source")
    face.serve()
    face.target.mkdir()
    for rules, expected in ((["existing=nothing"], b"here"), (["existing=not_newer"], b"here"), ([], b"source")):
        (face.target / "a").write_bytes(b"here")
        os.utime(face.target / "a", (2_000_000_000, 2_000_000_000))
        expect(face.get(*rules).failed == {}, f"{rules}")
        expect(face.tree() == {"a": expected}, f"{rules}: {face.tree()}")
    # Of the same size and time, but another content.
    status = (face.source / "a").stat()
    (face.target / "a").write_bytes(b"SOURCE")
    os.utime(face.target / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    face.get("whole_files=1", "fsync=1")
    expect(face.tree() == {"a": b"SOURCE"}, "by size and time it is the same")
    face.get("checksum=1", "whole_files=1", "fsync=1")
    expect(face.tree() == {"a": b"source"}, "by its content it is another")


def a_dry_run_changes_nothing(face):
    face.write(a="a")
    face.serve()
    face.target.mkdir()
    (face.target / "old").write_text("old")
    face.tell("get", "transfer", "client", "/data/", face.target, "dry_run=1", "deletion=1")
    planned = sorted(event[1:] for event in face.events("ended") if event[0] == "planned")
    expect([(path.rpartition("/")[2], removal) for path, removal in planned] == [("a", "0"), ("old", "1")],
           f"{planned}")
    expect(sorted(face.tree()) == ["old"], f"{face.tree()}")


def an_upload_to_a_read_only_folder_is_refused(face):
    face.serve()
    face.target.write_text("x")
    report = face.run("put", face.target, "/data/x")
    expect(codes(report) == [errno.EACCES], f"{report}")
    expect(not face.tree(face.source), "nothing was written")


def a_path_is_not_there(face):
    face.serve(kind="writable")
    for path in ("/data/none", "/other/"):
        report = face.run("get", path, face.target)
        expect(list(report.failed.values()) == [(errno.ENOENT, False)], f"{path}: {report}")
    report = face.run("put", face.place / "none", "/data/none")
    expect(list(report.failed.values()) == [(errno.ENOENT, True)], f"{report}")


def no_server_answers(face):
    face.tell("connect", "client", f"ipc://{face.place}/nobody", "patience_ms=100")
    face.tell("get", "transfer", "client", "/data/", face.target)
    expect(face.events("aborted")[-1] == ["aborted", str(errno.EHOSTUNREACH)], "it is aborted")
    refused(errno.EHOSTUNREACH, face.wait, reason="no server answers")
    # One that waits patiently, until it is cancelled.
    face.tell("connect", "client", f"ipc://{face.place}/nobody")
    face.tell("get", "transfer", "client", "/data/", face.target)
    refused(errno.EAGAIN, face.tell, "next", "transfer", 0)
    refused(errno.ECANCELED, face.tell, "interrupt", "transfer")


def one_file_fails_and_the_others_arrive(face):
    face.write(a="a", b="b", c="c")
    face.serve()
    # A directory is in the way of the file.
    (face.target / "b" / "x").mkdir(parents=True)
    report = face.get()
    expect(report.files == 2, f"{report}")
    ((path, (number, here)),) = report.failed.items()
    expect(path.endswith("b") and number == errno.EACCES and here, f"{report}")
    face.tell("get", "transfer", "client", "/data/", face.target)
    event = face.events("failed")[-1]
    expect(event == ["failed", path, str(number), "1"], f"{event}")
    expect(face.tree() == {"a": b"a", "c": b"c"}, f"{face.tree()}")


def public_key(certificate):
    return certificate.read_text().partition('public-key = "')[2].partition('"')[0]


def users_have_keys_and_rights(face):
    face.write(open__a="a", secret__b="b")
    for name in ("server", "alice", "mallory"):
        subprocess.run([face.command, "keygen", face.place / name], check=True, stdout=subprocess.DEVNULL)
    for user in (f"user=alice@{face.place}/alice", f"key=alice@{public_key(face.place / 'alice')}"):
        endpoint = face.serve(f"cert={face.place}/server", user, "grant=alice@/data/open@read",
                              "grant=*@/data/open@write")
        face.tell("connect", "client", endpoint, f"cert={face.place}/alice@{face.place}/server")
        expect(face.get(path="/data/open/").failed == {}, "it is granted")
        expect(codes(face.get(path="/data/secret/")) == [errno.EACCES], "it is not granted")
        stranger = f"cert={face.place}/mallory@{face.place}/server"
        face.tell("connect", "client", endpoint, stranger, "patience_ms=1000")
        face.tell("get", "transfer", "client", "/data/open/", face.target)
        refused(errno.EACCES, face.wait, reason="the handshake fails")
        face.tell("stop", "server")
    endpoint = face.serve(f"cert={face.place}/server", user)
    key = public_key(face.place / "server")
    face.tell("connect", "client", endpoint, f"curve={face.place}/alice@{key}")
    expect(face.get(path="/data/open/").failed == {}, "the server's key is given as text")


def users_have_passwords(face):
    face.write(a="a")
    endpoint = face.serve("password=alice@secret", "grant=alice@/data@read")
    face.tell("connect", "client", endpoint, "password=alice@secret")
    expect(face.get().failed == {}, "the password is right")
    face.tell("connect", "client", endpoint, "password=alice@wrong", "patience_ms=1000")
    face.tell("get", "transfer", "client", "/data/", face.target)
    refused(errno.EACCES, face.wait, reason="the handshake fails")
    # Keys and passwords do not go together.
    subprocess.run([face.command, "keygen", face.place / "key"], check=True, stdout=subprocess.DEVNULL)
    refused(errno.EINVAL, face.tell, "serve", "other", f"user=bob@{face.place}/key")
    both = f"cert={face.place}/key@{face.place}/key", "password=alice@secret"
    refused(errno.EINVAL, face.tell, "connect", "other", endpoint, *both)


def domains_must_agree(face):
    face.write(a="a")
    endpoint = face.serve("domain=test")
    face.tell("get", "transfer", "client", "/data/", face.target)
    refused(errno.EACCES, face.wait)
    face.tell("connect", "client", endpoint, "domain=test")
    expect(face.get().failed == {}, "the domain is the same")


def options_are_taken(face):
    face.write(a="a" * 300_000)
    endpoint = face.serve("workers=1", "rescan_ms=1000", "part_age_ms=1000", "high_water_mark=2")
    face.tell("connect", "client", endpoint, "window_max=2000000", "chunk=1000", "limit_rate=100000000",
              "part_age_ms=1000", "high_water_mark=2")
    expect(face.get() == (1, 300_000, {}), "the report")
    # Twice this window, and some more, are 2^64 bytes.
    face.tell("connect", "client", endpoint, f"window_max={2**63 - 2**22}", f"limit_rate={2**64 - 1}")
    expect(face.run("get", "/data/a", face.place / "other") == (1, 300_000, {}), "the report")


def what_has_ended_holds_nothing(face):
    face.write(a="a")
    rounds = []
    for _ in range(3):
        endpoint = face.serve()
        expect(face.get().failed == {}, "it is fetched")
        refused(errno.EADDRINUSE, face.tell, "serve", "other", f"bind=ipc://{face.place}/other", f"bind={endpoint}")
        refused(errno.EINVAL, face.tell, "connect", "other", "nonsense")
        face.tell("disconnect", "client")
        face.tell("stop", "server")
        rounds.append(face.held())
    expect(rounds[1] == rounds[0] == rounds[2], f"threads and descriptors: {rounds}")


def wrong_arguments_are_refused(face):
    endpoint = face.serve()
    refused(errno.EINVAL, face.tell, "connect", "other", "nonsense")
    refused(errno.EADDRINUSE, face.tell, "serve", "other", f"bind={endpoint}")
    refused(errno.ENOENT, face.tell, "serve", "other", f"folder=/x@{face.place}/none")
    refused(errno.EINVAL, face.tell, "serve", "other", f"folder=x/../y@{face.place}")
    report = face.get("exclude=[")
    expect(codes(report) == [errno.EINVAL], f"{report}")


def transfers_outlive_their_client(face):
    face.write(a=bytes(5_000_000))
    face.serve()
    face.tell("get", "transfer", "client", "/data/", face.target)
    face.tell("disconnect", "client")
    expect(face.wait() == (1, 5_000_000, {}), "it goes on")
    face.tell("close", "transfer")


BEHAVIOURS = [
    a_file_is_fetched, a_tree_is_fetched, events_are_told, events_are_iterated, a_tree_is_uploaded,
    names_are_listed, what_is_fetched_may_be_discarded, a_path_is_followed, a_followed_path_waits_for_its_server,
    a_transfer_is_cancelled_by_another_thread, a_mirror_removes, names_are_left_out,
    files_that_are_here_are_kept_or_replaced, a_dry_run_changes_nothing, an_upload_to_a_read_only_folder_is_refused,
    a_path_is_not_there, no_server_answers, one_file_fails_and_the_others_arrive, users_have_keys_and_rights,
    users_have_passwords, domains_must_agree, options_are_taken, what_has_ended_holds_nothing,
    wrong_arguments_are_refused, transfers_outlive_their_client,
]
