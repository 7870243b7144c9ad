"""The harness of `bench/run`: what is measured (cases), how (programs, trial, rounds), and what is shown of it."""
