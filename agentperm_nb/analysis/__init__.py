"""What do we learn? The log as pandas tables."""
