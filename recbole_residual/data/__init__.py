"""Sequences, preprocessing, splits and loaders over RecBole's atomic files."""
