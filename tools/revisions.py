"""Builds the C library of older revisions, below target/older, for the tests beside older builds."""
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "target/older"
BUILD_S = 30 * 60


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode().strip()


def commit_of(revision):
    """The commit of a revision, in 12 digits. Ends the program if this clone does not have it."""
    code, found, _ = git("rev-parse", "--verify", "--quiet", "--short=12", revision + "^{commit}")
    if code == 0:
        return found.decode().strip()
    shallow = git("rev-parse", "--is-shallow-repository")[1].decode().strip() == "true"
    more = ", which is shallow: `git fetch --unshallow` gets the whole history" if shallow else ""
    raise SystemExit(f"older: revision {revision} is not in this clone{more}")


def built(revision):
    """The library and the sources of a revision, in its own directory. All revisions share a target directory, so
    common crates are built once."""
    commit = commit_of(revision)
    folder = FOLDER / commit
    library, sources = folder / "libzmq.so.5", folder / "sources"
    if not library.exists():
        print(f"older: builds {commit}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        sources.mkdir(parents=True)
        code, archive, problem = git("archive", commit)
        if code:
            raise SystemExit(f"older: git archive {commit}: {problem}")
        subprocess.run(["tar", "-x", "-C", sources], input=archive, check=True)
        command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "pinnace-capi"]
        target = FOLDER / "built"
        subprocess.run([*command, "--target-dir", target], cwd=sources, check=True, timeout=BUILD_S)
        shutil.copyfile(target / "release/libpinnace.so", folder / "unfinished")
        (folder / "unfinished").rename(library)
    return library, sources
