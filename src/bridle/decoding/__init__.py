"""Decoding: a decoder takes scores and rules, an engine finds the labelling, a judge can check it.

problem.py      lattices packed for the engines, limits, answers
threads.py      parts of a batch in threads
result.py       Decoding and Decodings: labels with their proof, a status for every sequence, and why there is no answer
marginals.py    probabilities under rules
documents.py    sentences that are decoded together, with rules across them
judge.py        check: recomputes score and violations of a decoding
decoder.py      Decoder: compile the rules once, choose an engine, decode
"""
