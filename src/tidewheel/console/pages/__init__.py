"""The screens. Each module reads what its template shows."""
