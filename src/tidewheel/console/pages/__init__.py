"""The screens. Each module reads the data of its template."""
