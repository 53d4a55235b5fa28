"""Decoding: a decoder takes scores and rules, an engine finds the labelling, a judge can check it.

decoder.py      Decoder: compile the rules once, choose an engine, decode
plan.py         which engine answers, and why
problem.py      lattices packed for the engines, limits, answers
outcomes.py     the answers of a batch put together; what to do with sequences that have none
clash.py        why there is none: a minimal set of rules that cannot hold together, or a limit
relaxation.py   the fewest violations where hard rules clash
ranking.py      the k best labellings
result.py       Decoding and Decodings: labels with their proof, and a status for every sequence
marginals.py    probabilities under rules
threads.py      parts of a batch in threads
judge.py        check: recomputes score and violations of a decoding
"""
