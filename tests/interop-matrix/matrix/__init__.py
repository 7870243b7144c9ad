"""The interoperation matrix: who takes part, what is said, and how it is printed. ../README.md says how to read it."""
