"""Tests the functions' bundles, the wheel and the source distribution in isolated environments."""
