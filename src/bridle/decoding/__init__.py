"""Decoding: a decoder takes scores and rules, an engine finds the labelling, a judge can check it.

    decoder.py    Decoder: compile the rules once, choose an engine, decode
    result.py     Decoding and Decodings: labels with their proof
    problem.py    lattices packed for the engines
    judge.py      check: re-derives score and violations of a decoding
"""
