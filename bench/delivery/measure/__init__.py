"""The harness of bench/delivery/run."""
