"""The demonstration: a sample host on this machine, and the main job run on it through the product's own services."""
