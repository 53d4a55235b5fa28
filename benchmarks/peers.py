"""HiGHS as a peer, one function per model: (unary, pairwise, facts) -> (score, ids). Building the model is in the call.

Models are filled by NumPy and passed as one matrix; one thread. CP-SAT and Pynini are in files of their own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from trellis import Answer, Edges, Facts, Floats, NoAnswerError, score


@cache
def _highs() -> Any:
    import highspy

    solver = highspy.Highs()
    for name, value in {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_abs_gap": 1e-9}.items():
        solver.setOptionValue(name, value)
    return solver


class _Model:
    """Maximise a linear sum over 0/1 columns under rows, which are added one block at a time."""

    def __init__(self, gain: Floats) -> None:
        self.gain = gain
        self.columns: list[Any] = []
        self.rows: list[Any] = []
        self.values: list[Any] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def row(self, columns: Any, low: float, high: float, values: Any = None) -> None:
        """One more row; its values are 1 unless told."""
        columns = np.asarray(columns)
        self.columns.append(columns)
        self.rows.append(np.full(len(columns), len(self.low)))
        self.values.append(np.ones(len(columns)) if values is None else np.asarray(values, dtype=float))
        self.low.append(low)
        self.high.append(high)

    def flow(self, edges: Edges) -> None:
        """One unit of flow from the start to the last token: the rows that make a path."""
        every = np.arange(len(edges))
        into, out = edges.at < edges.n - 1, edges.at > 0
        self.columns += [every[into], every[out]]
        self.rows += [edges.at[into] * edges.m + edges.label[into], (edges.at[out] - 1) * edges.m + edges.before[out]]
        self.values += [np.ones(into.sum()), -np.ones(out.sum())]
        self.low += [0.0] * ((edges.n - 1) * edges.m)
        self.high += [0.0] * ((edges.n - 1) * edges.m)
        self.row(every[~out], 1.0, 1.0)

    def counts(self, edges: Edges, facts: Facts) -> None:
        """The counting rules, one row each."""
        begins = edges.before != edges.label
        for k in facts.at_most_one:
            self.row(np.flatnonzero(begins & (edges.label == k)), -np.inf, 1.0)
        if facts.at_least_one:
            self.row(np.flatnonzero(begins & np.isin(edges.label, facts.at_least_one)), 1.0, np.inf)

    def solve(self, lp_first: bool) -> Any:
        """Column values at the optimum. `lp_first`: ask for integers only if the LP comes out fractional."""
        import highspy

        size = len(self.gain)
        column = np.concatenate(self.columns)
        order = np.argsort(column, kind="stable")
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = size, len(self.low)
        lp.sense_ = highspy.ObjSense.kMaximize
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = self.gain, np.zeros(size), np.ones(size)
        lp.row_lower_, lp.row_upper_ = np.array(self.low), np.array(self.high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.searchsorted(column[order], np.arange(size + 1)).astype(np.int32)
        lp.a_matrix_.index_ = np.concatenate(self.rows)[order].astype(np.int32)
        lp.a_matrix_.value_ = np.concatenate(self.values)[order]
        whole = np.full(size, int(highspy.HighsVarType.kInteger), dtype=np.uint8)
        solver = _highs()
        solver.clearModel()
        solver.passModel(lp)
        x = None
        if lp_first:
            solver.run()
            x = np.array(solver.getSolution().col_value)
        if x is None or np.abs(x - x.round()).max() > 1e-6:
            solver.changeColsIntegrality(size, np.arange(size, dtype=np.int32), whole)
            solver.run()
            x = np.array(solver.getSolution().col_value)
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise NoAnswerError(f"HiGHS: {solver.getModelStatus()}")
        return x


def highs_rows(unary: Floats, pairwise: Floats | None, facts: Facts) -> Answer:
    """Tight rows as Roth & Yih would state them: all edges, every rule a row, one integer program."""
    edges = Edges(unary, pairwise, None)
    model = _Model(edges.gain)
    model.flow(edges)
    model.counts(edges, facts)
    changes = edges.before != edges.label
    for t in facts.tied:
        model.row(np.flatnonzero((edges.at == t) & changes), 0.0, 0.0)
    if facts.verb is not None:
        model.row(np.flatnonzero((edges.at == facts.verb) & (edges.label == 0)), 1.0, 1.0)
    if facts.frame is not None:
        for k in set(range(edges.m)) - set(facts.frame):
            model.row(np.flatnonzero(edges.label == k), 0.0, 0.0)
    y = edges.ids(model.solve(lp_first=False) > 0.5)
    return score(unary, pairwise, y), y


def highs_pruned(unary: Floats, pairwise: Floats | None, facts: Facts) -> Answer:
    """Solve with HiGHS, without impossible edges, and the LP first."""
    edges = Edges(unary, pairwise, facts)
    model = _Model(edges.gain)
    model.flow(edges)
    model.counts(edges, facts)
    y = edges.ids(model.solve(lp_first=True) > 0.5)
    return score(unary, pairwise, y), y


def highs_compact(unary: Floats, pairwise: Floats | None, facts: Facts) -> Answer:
    """No edges at all: labels of tokens, and starts of segments. Only for lattices without pairwise scores.

    None of the papers prints it. Without pairwise scores it is as tight as the edge rows, and much smaller.
    """
    assert pairwise is None
    n, m = unary.shape
    allowed = facts.allowed(n, m)
    node = np.full((n, m), -1)
    at, label = np.nonzero(allowed)
    node[at, label] = np.arange(len(at))
    model = _Model(unary[at, label])
    for t in range(n):
        model.row(node[t, node[t] >= 0], 1.0, 1.0)
    for t in facts.tied:
        for k in np.flatnonzero(allowed[t] | allowed[t - 1]):
            both = [(node[s, k], v) for s, v in ((t, 1.0), (t - 1, -1.0)) if node[s, k] >= 0]
            model.row([c for c, _ in both], 0.0, 0.0, [v for _, v in both])
    size, tied = len(at), set(facts.tied)
    for k in facts.at_most_one:
        starts = []
        for t in range(n):
            if node[t, k] < 0 or t in tied:
                continue
            if t == 0 or node[t - 1, k] < 0:
                starts.append(node[t, k])
                continue
            model.row([node[t, k], node[t - 1, k], size], -np.inf, 0.0, [1.0, -1.0, -1.0])
            starts.append(size)
            size += 1
        if starts:
            model.row(starts, -np.inf, 1.0)
    if facts.at_least_one:
        inside = node[:, list(facts.at_least_one)].ravel()
        model.row(inside[inside >= 0], 1.0, np.inf)
    model.gain = np.concatenate([model.gain, np.zeros(size - len(at))])
    x = model.solve(lp_first=True)
    y = np.where(node >= 0, x[node], 0.0).argmax(axis=1).tolist()
    return score(unary, pairwise, y), y
