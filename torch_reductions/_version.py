"""The version. A wheel of `make wheel` adds what it was built for, as torch does: 0.2.0+cpu, 0.2.0+cu130."""

__version__ = "0.2.0"
