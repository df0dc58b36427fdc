"""What is built: the functions' bundles, the wheel and the source distribution, each tried where nothing else is."""
