"""What happened? Events, append-only, and one row a call made from them."""
