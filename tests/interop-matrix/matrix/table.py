"""The matrix as text."""


class Table:
    """Collects the cells' results; prints each row when it is complete, then notes, failures and the totals."""

    def __init__(self, peers):
        self.heads = ["pattern", "mechanism", "transport", "ours", *(peer.title for peer in peers)]
        self.widths = [13, 9, 9, 15, *(len(peer.title) for peer in peers)]
        self.notes, self.failures = [], []
        self.passed = 0

    def line(self, words):
        print("  ".join(word.ljust(width) for word, width in zip(words, self.widths)).rstrip(), flush=True)

    def head(self):
        self.line(self.heads)
        self.line(["-" * width for width in self.widths])

    def note(self, reason):
        if reason not in self.notes:
            self.notes.append(reason)
        return str(self.notes.index(reason) + 1)

    def absent(self, lacks):
        return f"- ({self.note(lacks[0].reason)})"

    def passing(self, lacks):
        self.passed += 1
        return f"ok ({','.join(self.note(lack.reason) for lack in lacks)})" if lacks else "ok"

    def failing(self, row, peer, problem):
        self.failures.append(f"{' '.join(row.words())}, {peer.title}: {problem}")
        return "FAILED"

    def finish(self, seconds):
        print()
        for number, reason in enumerate(self.notes, 1):
            print(f"({number}) {reason}")
        for failure in self.failures:
            print(f"FAILED {failure}")
        print(f"{self.passed} passed, {len(self.failures)} failed in {seconds:.0f} s")
