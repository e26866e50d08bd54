"""What `permissions.lint` looks for, one kind of mistake a file."""
