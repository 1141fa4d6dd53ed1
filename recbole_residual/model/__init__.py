"""The models: short files, one class each, over RecBole's own."""
