"""Build and test tools; not part of the package."""
