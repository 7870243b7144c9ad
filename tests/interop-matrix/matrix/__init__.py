"""The interoperation matrix: its peers, its patterns, and its table. ../README.md explains how to read it."""
