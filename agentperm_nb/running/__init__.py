"""Do it: agents, turns, and the replies and results of each provider."""
