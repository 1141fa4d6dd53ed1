"""The configuration: its keys, RecBole's Config extended, and the yaml files."""
