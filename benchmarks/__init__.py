"""Figures, each beside what it is measured against: ``python -m benchmarks.NAME [--quick]``."""
