"""The scenario file: one format for plans, conformance cases, recordings and bug reports."""
