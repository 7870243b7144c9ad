"""The harness of bench/files/run."""
