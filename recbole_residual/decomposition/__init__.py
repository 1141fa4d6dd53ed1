"""Hooks and the norm-based decomposition of an attention block."""
