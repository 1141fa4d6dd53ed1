"""Checkpoints: written whole, read without trust."""
