// The inner loops, one table of them per tier; `kernels()` is the table of the tier in use.
//
// Every kernel is written once (the .inl files beside this one) and compiled for each tier. Arrays are plain pointers; rows
// of scores have `width` numbers, a multiple of the vector length, the padding being -inf (weights: 0).
//   n positions (t)    m labels (i, then j)    Q states of a fold (q)    N tokens    A attributes    W weights
#pragma once

#include <cstddef>
#include <cstdint>

namespace bridle {

// Transition scores i -> j, laid out for one step back (table.h).
struct TableView {
    int m, width;
    bool flat;              // all scores are 0: there are no rows, columns and ranges
    const double* same;     // (width)  null, or all columns but the short ones are alike: this one, less what it adds
    const double* columns;  // (m, width)  column j: the scores of all i -> j
    const double* rows;     // (m, width)  row i: the scores of i -> all j
    const double *least, *most;  // (width)     of column j, where it may be passed over
    const int32_t *low, *high;   // (m)         where column j is not all -inf, in whole vectors
    const uint64_t* narrow;      // (width / 64, rounded up)  bit j: column j is short
    // If the scores of the short columns lie on few diagonals (B-X -> I-X), they stand here too:
    int n_diagonals;             // 0: they do not
    int offset[4];               // j - i of each
    const double* diagonals;     // (n_diagonals, width)  at i: the score of i -> i + offset, or -inf
    const uint64_t* short_from;  // (m)  bit j of i: i -> j is one of them; null if m > 64
};

// w is read up to so many numbers before its beginning and after its end.
constexpr int kGuard = 64;

// The scores of one sequence as they came: one of the two types, unpadded rows.
struct RawScores {
    const float* f32;   // (n, m) or null
    const double* f64;  // (n, m) or null
    int n, m, width;
    const double *start, *end;  // (width) or null
    const uint64_t* allowed;    // (n, words)  bit y: label y is allowed; null: all are
    int words;
    const uint8_t* tied;  // (n)  which table leads to a position: 1 the second; null: always the first
    const TableView* tables[2];
};

// Entries of tokens as training wants them (rows.h).
struct Entries {
    const uint32_t* slot;   // where a full row begins, or a single weight
    const uint16_t* label;  // of a single weight
    const float* value;     // null: all are 1
};

struct Row {  // what of an attribute is needed to score it, in eight bytes
    uint32_t begin;
    uint16_t count;  // the width of a full row, or how many weights there are
    uint16_t label;  // of the first weight
};

struct TokenRows {          // attributes of tokens and the weights that score them
    const Row* rows;        // (A)
    const uint16_t* label;  // (W)
    const int64_t* indptr;  // (N + 1)
    const int32_t* attrs;   // (indptr[N])
    const float* values;    // or null
    int64_t last;           // indptr[N]
    int width;
};

struct TokenRoom {  // for the attributes of one token
    uint32_t* full;
    Row* list;
    float *value, *list_value;
};

// Forward-backward and what it reads and writes, in single or in double precision.
template <class Real>
struct SumKernels {
    // out (count, width) := scores of tokens; begin (count + 1) their entries, full (count) how many are full rows
    void (*score)(const Entries& e, const int64_t* begin, const uint32_t* full, int64_t count, int width, const Real* w,
                  Real* out);
    // into (W) += value * p[label], for tokens p (count, width): the other way round, always in double precision
    void (*expect)(const Entries& e, const int64_t* begin, const uint32_t* full, int64_t count, int width,
                   const Real* p, double* into);
    // u (n, w) := exp(u - the largest of its row); returns the sum of the largest
    double (*lift)(Real* u, int n, int m, int w);
    void (*forward)(const Real* U, const Real* E, int n, int m, int w, Real* a, Real* c);
    void (*backward)(const Real* U, const Real* back, int n, int m, int w, const Real* a, const Real* c, Real* b,
                     Real* v, Real* p);
    // sum[i][j] += over `count` positions of a[i] v[j]
    void (*add_outer)(const Real* a, const Real* v, int count, int m, int w, Real* sum);
    // The same position by position, M (m, w) being the table that leads to it (edge_likelihood.cpp).
    Real (*forward_step)(const Real* before, const Real* M, const Real* U, int m, int w, Real* a);
    void (*weigh)(Real c, const Real* U, const Real* a, const Real* b, int w, Real* v, Real* p);
    void (*backward_step)(const Real* M, const Real* v, const Real* a, int m, int w, Real* b, Real* sum);
};

// Sums over labels x states of many sequences at once, one per lane (lanes.inl; search/sums_chain.h has the equations). Cells are
// vectors of `lanes` numbers: doubles ahead, and `Real` back. A program is a list of runs: each takes a row of up to kMostRun columns
// of a table, and adds
//   out[target[k].cell] += price[target[k].price] * mask * sum over terms of x[term.cell] * table[term.at + k]

constexpr int kMostRun = 12, kMostTileRows = 3, kMostTileColumns = 4;

struct LaneTerm {
    uint32_t cell, at;
};
struct LaneTarget {
    int32_t cell, price;  // cell: -1: none
};
struct LaneRun {
    uint32_t target, count, begin, end;  // its first target, how many there are, and its terms
};
// sum[(i + k) m + j + l] += x[cell + k] * y[column + l] for k < rows, l < columns
struct LaneTile {
    uint32_t cell, column, i, j;
    uint8_t rows, columns;
};

template <class Real>
struct LaneKernels {
    template <class Number>
    using Multiply = void(const LaneRun* runs, size_t n_runs, const LaneTerm* terms, const LaneTarget* targets,
                          const Number* price, const Number* table, const Number* x, const Number* mask, Number* out);
    int lanes;
    // ---- ahead -----------------------------------------------------------------------------------------------------
    // u[k] = rows[lane][label[k]], k < m
    void (*take)(const float* const* rows, const int32_t* label, int m, double* u);
    // u (m) := exp(u - top) * factor, kept (m): the same; top (1): the largest, or 0 if there is none
    void (*lift)(double* u, int m, const double* factor, double* top, Real* kept);
    Multiply<double>* multiply_ahead;  // mask (lanes) or null: all are 1
    // a[v] *= u[label[v]], kept (nodes): the same;  total (1): the sum
    void (*scale)(double* a, const double* u, const int32_t* label, int nodes, double* total, Real* kept);
    // ---- back ------------------------------------------------------------------------------------------------------
    Multiply<Real>* multiply;
    // out[k] += price * mask * x[target], for those k that have a target
    void (*gather)(const LaneTarget* targets, size_t count, const Real* price, const Real* mask, const Real* x,
                   Real* out);
    // The tiles of `count` positions, which are so many cells apart in x and y; table (m, m) is what `multiply` has.
    void (*add_outer)(const LaneTile* tiles, size_t n_tiles, const Real* x, size_t x_step, const Real* y, size_t y_step,
                      int count, int m, const Real* table, Real* sum);
    // p[label[v]] += a[v] b[v];  most (1): the largest b so far;  b[v] *= u[label[v]]
    void (*weigh)(const Real* a, Real* b, const Real* u, const int32_t* label, int nodes, Real* p, Real* most);
    // rows[lane][label[k]] = min(p[k], 1), k < m
    void (*put)(const Real* p, const int32_t* label, int m, Real* const* rows);
};

// Steps and changes of the gradient that L-BFGS remembers, in single or in double precision.
template <class History>
struct HistoryKernels {
    double (*product)(const History* a, const History* b, int64_t count);
    double (*with_vector)(const History* a, const double* b, int64_t count);
    // s = there - w, y = gradient - g, g = gradient;  sums: s.y, y.y, g.g, there.there
    void (*take_step)(const double* there, const double* w, const double* gradient, double* g, History* s, History* y,
                      int64_t count, double* sums);
    // d = shares[0] * p + sum over rows of share * row;  there = w + step * d;  returns d.p
    double (*aim)(const double* shares, const double* p, const History* const* rows, size_t n, const double* w,
                  double step, double* d, double* there, int64_t low, int64_t high);
};

struct Kernels {
    const char* name;
    int lanes;  // doubles per vector

    // ---- best paths (viterbi.inl) -------------------------------------------------------------------------------------
    // out[i] = max over j of score[i][j] + w[j];  w (width, with a guard), out (width); room (width): for columns that count
    void (*step_back)(const TableView& table, const double* w, double* out, int32_t* room);
    // Rows high-1 .. low of H over one state, the row above being `after`:  H[t] = step back of unary[t + 1] + H[t + 1].
    // tables (n): what leads to each position. unary: of positions low+1 .. high; w (width).
    void (*rows_back)(const TableView* const* tables, const double* unary, int low, int high, const double* after,
                      double* H, double* w, int32_t* room);
    // One row of H for all states of a fold; cost, cell (Q, width); u (width); after, row (Q, width).
    void (*fold_back)(const TableView& table, int Q, const double* cost, const int32_t* cell, const double* u,
                      const double* after, double* row, double* w, int32_t* room);
    // out[i] = max over j of step[i][j] + add[i][j] + w[j];  step, add (m, m)
    void (*dense_back)(const double* step, const double* add, const double* w, double* out, int m, int width);
    // The first j with the largest a[j] + b[j] + c[j]; -1 if all are -inf.
    int (*best_of)(const double* a, const double* b, const double* c, int width);
    // Rows high-1 .. low of  V[t][j] = score of label j at t + the best that can follow.  `after`: row `high`, if high < n.
    // few (high - low + 1): bit j of few[t - low]: label j may be best at t, whatever comes before; 0: not known.
    void (*scan)(const RawScores& x, int low, int high, const double* after, double* V, uint64_t* few, double* H,
                 int32_t* room);
    // The best path along rows low .. high-1 of V, y being the label before `low` (none if low is 0). -1: there is none.
    int (*follow)(const RawScores& x, int low, int high, const double* V, const uint64_t* few, int y, int32_t* path);
    // out[j] = max over i of before[i] + pair[i][j];  pair (m, width)
    void (*step_ahead)(const double* before, const double* pair, int m, int width, double* out);

    // ---- shares of edges (max_plus.inl); width: a multiple of 16 -------------------------------------------------------
    // out[r][j] = max over k of a[r][k] + b[k][j], for the r in `rows` and the k in `inner`;  a[r][k] at r * row + k * column
    void (*max_plus)(const float* a, int row, int column, const float* b, const int32_t* rows, int n_rows,
                     const int32_t* inner, int n_inner, int width, float* out);
    // out[r][j] = x[cell[r][j]] - cost[r][j], for the r in `rows`
    void (*look_up)(const float* x, const int32_t* cell, const float* cost, const int32_t* rows, int n_rows, int width,
                    float* out);
    // x[r][j] = y[r][j] = -inf unless x[r][j] + y[r][j] + rest[j] > low.  Keeps the rows that still hold a number; returns how many.
    int (*drop_low)(float* x, float* y, const float* rest, float low, int32_t* rows, int n_rows, int width);
    // The largest magnitude of a number that is not -inf.
    float (*largest)(const float* x, size_t count);

    // The first number that is NaN, +inf, or beyond +-largest but not -inf; count if there is none.
    int64_t (*first_bad_float)(const float* x, int64_t count, float largest);
    int64_t (*first_bad_double)(const double* x, int64_t count, double largest);

    // ---- sums of weights (sums.inl) -----------------------------------------------------------------------------------
    void (*score_tokens)(const TokenRows& x, int64_t first, int64_t count, const float* w, float* out,
                         const TokenRoom& room);
    void (*add_row)(double* out, const double* row, int width);
    // n rows, each of which begins somewhere in w, one after the other
    void (*add_rows)(double* out, const double* w, const uint32_t* begin, int n, int width);

    // ---- training (sums.inl, forward_backward.inl) --------------------------------------------------------------------
    SumKernels<double> in_double;
    SumKernels<float> in_single;

    // ---- many sequences at once (lanes.inl) ---------------------------------------------------------------------------
    LaneKernels<double> lanes_in_double;
    LaneKernels<float> lanes_in_single;

    // ---- long vectors (long_vectors.inl) --------------------------------------------------------------------------------
    double (*product)(const double* a, const double* b, int64_t count);
    void (*combine)(const double* shares, const double* const* rows, size_t n, int64_t low, int64_t high, double* out);
    // out = sum of the counts - gold + decay * w;  sums: w.gold, w.w
    void (*gradient_of)(const double* const* counts, size_t n, const double* gold, const double* w, double decay,
                        double* out, int64_t low, int64_t high, double* sums);
    HistoryKernels<double> history_in_double;
    HistoryKernels<float> history_in_single;

    // ---- keys of attributes (keys.inl) ----------------------------------------------------------------------------------
    void (*add_place)(const int32_t* ids, const int32_t* room, int32_t offset, int32_t beyond, uint64_t size,
                      bool exact, int count, uint64_t* key, int32_t* none);
};

const Kernels& kernels();

template <class History>
const HistoryKernels<History>& history_kernels() {
    if constexpr (sizeof(History) == sizeof(double)) return kernels().history_in_double;
    else return kernels().history_in_single;
}

template <class Real>
const SumKernels<Real>& sum_kernels() {
    if constexpr (sizeof(Real) == sizeof(double)) return kernels().in_double;
    else return kernels().in_single;
}

template <class Real>
const LaneKernels<Real>& lane_kernels() {
    if constexpr (sizeof(Real) == sizeof(double)) return kernels().lanes_in_double;
    else return kernels().lanes_in_single;
}

// m rounded up to whole vectors of the tier in use
inline int padded(int m) { return (m + kernels().lanes - 1) / kernels().lanes * kernels().lanes; }

constexpr int kRowLanes = 8;  // full rows of weights are padded to this, on every tier: model files hold them
constexpr int padded_row(int m) { return (m + kRowLanes - 1) / kRowLanes * kRowLanes; }

}  // namespace bridle
