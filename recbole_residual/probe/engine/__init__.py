"""What computes the answers of the probes."""
