"""One run: its folder, its session, training and resuming."""
