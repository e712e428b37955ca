"""NeurIPS 2025 methods as pure JAX functions and linen modules.

Import what you need from the area that holds it, for example
``from neurips25.attention import tpa_attention``.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("neurips25")
except PackageNotFoundError:  # a bare checkout on the path, not installed
    __version__ = "0+unknown"
