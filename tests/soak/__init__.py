"""`python -m tests.soak`: renderd under faults and load for some minutes (docs/reliability.md)."""
