"""A checkpoint diagnosed, a sequence explained."""
