"""Conformance: what printed texts do on the PTX machine, event for event beside what their programs say."""
