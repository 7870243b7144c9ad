"""Debian's libzmq-jni and libzmq-java (org.zeromq on libzmq by JNI), with the Java program beside this file."""
from pathlib import Path

from check import Failure, run as output_of
from results import run_one

HERE = Path(__file__).resolve().parent
JAR = Path("/usr/share/java/zmq.jar")
TESTS = "version pushPull requestReply publish routerDealer poller proxy buffers monitor options refused plain".split()


def install(home):
    if not JAR.exists():
        raise Failure("no zmq.jar (Debian: libzmq-java and libzmq-jni)")
    output_of(["javac", "-Xlint:all,-try", "-Werror", "-cp", JAR, "-d", home, HERE / "Smoke.java"])


def command(home, test):
    native = next(Path("/usr/lib").glob("*/jni/libjzmq.so")).parent
    return ["java", "-Xint", "-cp", f"{home}:{JAR}", f"-Djava.library.path={native}", "Smoke", test]


def library(home, env):
    return output_of(command(home, "library"), Path(env["LD_LIBRARY_PATH"])).strip()


def run(home, env, wanted):
    for name in wanted or TESTS:
        yield run_one(name, command(home, name), home, env)
