"""store: the rows as CSV and the machine's facts as JSON, so that the page can be rendered again from them."""

import csv
import json

# The measures of a run; each kind of run has some of them.
MEASURES = (
    "seconds",
    "rate",
    "cpu_s",
    "p50_us",
    "p90_us",
    "p99_us",
    "max_us",
    "accepted_bytes",
    "connected_bytes",
)
FIELDS = ("case", "round", "place", "side", "version", "batch", "messages", *MEASURES)


def write_rows(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [{**row, "round": int(row["round"])} for row in csv.DictReader(file)]


def write_facts(path, facts):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1, ensure_ascii=False)
        file.write("\n")


def read_facts(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
