"""Ray Tune: hyper-parameter searches, and benchmarks over datasets, models and seeds."""
