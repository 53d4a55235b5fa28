"""Best-first search with the plain Viterbi estimate, in Python: how hard the `hard` set is without better bounds."""

from __future__ import annotations

import heapq

import numpy as np

from bridle.lattice import Lattice


def expansions(lattice: Lattice, cap: int) -> tuple[int, float | None]:
    """States expanded until the best path with at most one segment of each label is found, and its score.

    A state is (position, label, set of labels used). None instead of a score: the cap came first.
    """
    n, m = lattice.unary.shape
    assert lattice.pairwise is not None
    ahead = np.zeros((n, m))  # the best that can still come after label y at t, no rule looked at
    for t in range(n - 2, -1, -1):
        ahead[t] = (lattice.pairwise + (lattice.unary[t + 1] + ahead[t + 1])[None, :]).max(axis=1)
    rest = ahead.tolist()
    gain = [(lattice.pairwise + row[None, :]).tolist() for row in lattice.unary]  # gain[t][i][j]
    first = (lattice.unary[0]).tolist()
    queue = [(-(first[y] + rest[0][y]), -first[y], 0, y, 1 << y) for y in range(m)]
    heapq.heapify(queue)
    closed = set()
    count = 0
    while queue:
        _, cost, t, i, used = heapq.heappop(queue)
        if t == n - 1:
            return count, -cost
        if (t, i, used) in closed:
            continue
        closed.add((t, i, used))
        count += 1
        if count >= cap:
            return count, None
        row, after = gain[t + 1][i], rest[t + 1]
        for j in range(m):
            if j == i or not used >> j & 1:
                done = cost - row[j]
                heapq.heappush(queue, (done - after[j], done, t + 1, j, used | 1 << j))
    return count, None
