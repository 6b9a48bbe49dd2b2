"""Helpers of the build; no part of the package."""
