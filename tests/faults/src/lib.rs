//! The fault suites live in `tests/`. `FAULTS=long` in the environment chooses the long forms.
