"""May it run? The permissions, the order in which they are asked, and why a call was decided as it was."""
