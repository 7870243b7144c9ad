"""The harness of `bench/run`: the cases (cases), the measurement (programs, trial, rounds), and the output (others)."""
