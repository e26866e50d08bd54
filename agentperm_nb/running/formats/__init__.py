"""A provider's replies read, its results written: one provider a file."""
