"""Ask before an agent's tool runs, in the notebook where the agent runs, and learn from the answers."""

__version__ = "0.1.0"
