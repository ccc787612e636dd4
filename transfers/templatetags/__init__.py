"""Template tags of transfers."""
