"""Hostile input: every decoder that reads what others wrote, and the functions around them.

`make fuzz EXAMPLES=20000` tries that many inputs of each decoder at random; the tests try few, always the same.
"""
