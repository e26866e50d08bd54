"""How a rule reads the arguments of a call: one kind of argument a file."""
