"""The one place that says the version; read by setup.cfg without importing anything."""

__version__ = "0.1.0"
