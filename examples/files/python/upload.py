"""Uploads a file or a folder to a server that was started with a writable folder.

python3 upload.py tcp://127.0.0.1:5670 new/ /photos/new
"""
import sys

from pinnace.files import Client, Rules, exclude

endpoint, source, path = sys.argv[1:]
with Client(endpoint) as client:
    # Temporary files stay here.
    report = client.put(source, path, Rules(filter=[exclude("*.tmp")])).wait()
for failed in report.failed:
    print(f"{failed.path}: {failed.error.strerror}")
print(f"result files={report.files} failed={len(report.failed)}")
sys.exit(1 if report.failed else 0)
