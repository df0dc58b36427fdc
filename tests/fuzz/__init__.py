"""Tests with hostile input for every decoder of foreign bytes, and for the functions around the decoders.

`make fuzz EXAMPLES=20000` tries that many inputs at random; the tests try few, always the same.
"""
