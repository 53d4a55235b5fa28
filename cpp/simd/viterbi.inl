// Best paths: one step is out[i] = max over j of score[i][j] + w[j].
//
// Columns that cannot win anywhere are passed over. Let D be the set of labels i that most columns lead from (all of them, or
// the closed labels of BIOES), least[j] and most[j] the least and the largest score of column j over D, and
//   L = max over j of  w[j] + least[j]
// Every out[i] with i in D is at least L, so a column j inside D with w[j] + most[j] < L wins nowhere. Rounding is monotone, so
// that this holds to the last bit. What is left is often one column of many; when it is all, the test costs a tenth.
// If all columns are alike (a tagging scheme without transition scores), L itself is what they give.

namespace {

// ---- the maximum over some columns -----------------------------------------------------------------------------------

// The maximum over some columns j of a table:  out[i] = max over j of  column[j][i] + w[j]
//   columns (m, width)    list: which columns, `count` of them    w (m)    out (width)
constexpr double kNone = -std::numeric_limits<double>::infinity();
// What these do shows in `benchmarks/run.py --only peak`.
constexpr int kStrip = kRegisters - 4;  // vectors of out that stay in registers
constexpr int kStream = 800;            // labels whose table is 5 MB or more

// kVectors vectors of out while the columns in `list` pass by; with few vectors two columns at a time, so that the maxima
// need not wait for each other
template <int kVectors>
BRIDLE_INLINE void strip(const double* columns, int width, const int32_t* list, int count, const double* w,
                         double* out) {
    D top[kVectors];
    for (D& v : top) v = D::set(kNone);
    int c = 0;
    if constexpr (kVectors <= 4) {
        D other[kVectors];
        for (D& v : other) v = D::set(kNone);
        for (; c + 2 <= count; c += 2) {
            const double *left = columns + size_t(list[c]) * width, *right = columns + size_t(list[c + 1]) * width;
            const D x = D::set(w[list[c]]), y = D::set(w[list[c + 1]]);
            for (int v = 0; v < kVectors; ++v) {
                top[v] = max(D::load(left + v * D::lanes) + x, top[v]);
                other[v] = max(D::load(right + v * D::lanes) + y, other[v]);
            }
        }
        for (int v = 0; v < kVectors; ++v) top[v] = max(top[v], other[v]);
    }
    for (; c < count; ++c) {
        const double* column = columns + size_t(list[c]) * width;
        const D x = D::set(w[list[c]]);
        for (int v = 0; v < kVectors; ++v) top[v] = max(D::load(column + v * D::lanes) + x, top[v]);
    }
    for (int v = 0; v < kVectors; ++v) top[v].store(out + v * D::lanes);
}

BRIDLE_INLINE void all_strips(const double* columns, int width, const int32_t* list, int count, const double* w,
                              double* out) {
    int left = width / D::lanes;
    while (left > 0) {
        const int strips = (left + kStrip - 1) / kStrip, now = (left + strips - 1) / strips;  // of about the same size
        const int done = now < 12 ? now : 12;
        with_count<12>(done, [&]<int k>() { strip<k>(columns, width, list, count, w, out); });
        columns += done * D::lanes;
        out += done * D::lanes;
        left -= done;
    }
}

// The same for a table that is too large for the near caches: four whole columns at a time, which memory delivers fastest.
BRIDLE_INLINE void stream(const double* columns, int width, const int32_t* list, int count, const double* w,
                          double* out) {
    for (int i = 0; i < width; i += D::lanes) D::set(kNone).store(out + i);
    const auto column = [&](int c) { return columns + size_t(list[c]) * width; };
    int c = 0;
    for (; c + 4 <= count; c += 4) {
        const double *a = column(c), *b = column(c + 1), *d = column(c + 2), *e = column(c + 3);
        const D wa = D::set(w[list[c]]), wb = D::set(w[list[c + 1]]), wd = D::set(w[list[c + 2]]),
                we = D::set(w[list[c + 3]]);
        for (int i = 0; i < width; i += D::lanes) {
            const D left = max(D::load(a + i) + wa, D::load(b + i) + wb),
                    right = max(D::load(d + i) + wd, D::load(e + i) + we);
            max(max(left, right), D::load(out + i)).store(out + i);
        }
    }
    for (; c < count; ++c) {
        const double* a = column(c);
        const D wa = D::set(w[list[c]]);
        for (int i = 0; i < width; i += D::lanes) max(D::load(a + i) + wa, D::load(out + i)).store(out + i);
    }
}

BRIDLE_INLINE void some_columns(const double* columns, int width, const int32_t* list, int count, const double* w,
                                double* out) {
    if (width < kStream) all_strips(columns, width, list, count, w, out);
    else stream(columns, width, list, count, w, out);
}

// ---- one step back ---------------------------------------------------------------------------------------------------

constexpr double kLowest = -std::numeric_limits<double>::max();
constexpr int kFew = 8;  // labels for which the test of columns does not pay

BRIDLE_INLINE void on_diagonals(const TableView& table, const double* w, double* out) {
    for (int d = 0; d < table.n_diagonals; ++d) {
        const double *scores = table.diagonals + size_t(d) * table.width, *there = w + table.offset[d];
        for (int i = 0; i < table.width; i += D::lanes)
            max(D::load(scores + i) + D::load(there + i), D::load(out + i)).store(out + i);
    }
}

BRIDLE_INLINE void step_back_inline(const TableView& table, const double* __restrict w, double* __restrict out,
                                    int32_t* room) {
    const int width = table.width;
    D bound = D::set(table.same ? kNone : kLowest);
    if (table.m > kFew || table.same)
        for (int j = 0; j < width; j += D::lanes) bound = max(D::load(w + j) + D::load(table.least + j), bound);
    const D floor = D::set(bound.top());
    if (table.same) {
        for (int i = 0; i < width; i += D::lanes) (D::load(table.same + i) + floor).store(out + i);
        return on_diagonals(table, w, out);
    }
    int wide = 0, narrow = width;  // wide columns from the front of `room`, narrow ones from its end
    for (int first = 0; first < width; first += 64) {
        const int last = first + 64 < width ? first + 64 : width;
        uint64_t bits = 0;
        for (int j = first; j < last; j += D::lanes)
            bits |= at_least(D::load(w + j) + D::load(table.most + j), floor) << (j - first);
        for (uint64_t some = bits & ~table.narrow[first / 64]; some; some &= some - 1)
            room[wide++] = first + lowest_bit(some);
        for (uint64_t some = bits & table.narrow[first / 64]; some; some &= some - 1)
            room[--narrow] = first + lowest_bit(some);
    }
    some_columns(table.columns, width, room, wide, w, out);
    if (table.n_diagonals) return on_diagonals(table, w, out);
    for (; narrow < width; ++narrow) {
        const int j = room[narrow];
        const double* column = table.columns + size_t(j) * width;
        const D x = D::set(w[j]);
        for (int i = table.low[j]; i < table.high[j]; i += D::lanes)
            max(D::load(column + i) + x, D::load(out + i)).store(out + i);
    }
}

void step_back(const TableView& table, const double* w, double* out, int32_t* room) {
    step_back_inline(table, w, out, room);
}

void rows_back(const TableView* const* tables, const double* unary, int low, int high, const double* after, double* H,
               double* w, int32_t* room) {
    for (int t = high - 1; t >= low; --t) {
        const TableView& table = *tables[t + 1];
        const int width = table.width;
        const double* u = unary + size_t(t - low) * width;
        for (int j = 0; j < width; j += D::lanes) (D::load(u + j) + D::load(after + j)).store(w + j);
        double* row = H + size_t(t - low) * width;
        step_back_inline(table, w, row, room);
        after = row;
    }
}

void fold_back(const TableView& table, int Q, const double* cost, const int32_t* cell, const double* u,
               const double* after, double* row, double* w, int32_t* room) {
    const int width = table.width;
    for (int q = 0; q < Q; ++q, cost += width, cell += width, row += width) {
        for (int j = 0; j < width; j += D::lanes)
            (D::load(u + j) - D::load(cost + j) + D::gather(after, cell + j)).store(w + j);
        step_back_inline(table, w, row, room);
    }
}

void dense_back(const double* step, const double* add, const double* w, double* out, int m, int width) {
    for (int i = 0; i < m; ++i, step += m, add += m) {
        D top = D::set(kNone);
        int j = 0;
        for (; j + D::lanes <= m; j += D::lanes) top = max(D::load(step + j) + D::load(add + j) + D::load(w + j), top);
        if (j < m)
            top = max(D::load_some(step + j, m - j, kNone) + D::load_some(add + j, m - j, 0) + D::load(w + j), top);
        out[i] = top.top();
    }
    for (int i = m; i < width; ++i) out[i] = kNone;
}

// The first j with the largest of what `at(j)` gives in vectors; -1 if all are -inf.
template <class At>
BRIDLE_INLINE int first_of_best(int width, const At& at) {
    D top = at(0), other = D::set(kNone);
    int j = D::lanes;
    for (; j + 2 * D::lanes <= width; j += 2 * D::lanes) top = max(at(j), top), other = max(at(j + D::lanes), other);
    if (j < width) top = max(at(j), top);
    const double best = max(top, other).top();
    if (best == kNone) return -1;
    const D wanted = D::set(best);
    for (int first = 0;; first += 64) {  // a word of bits at a time, without a branch for every vector
        const int last = first + 64 < width ? first + 64 : width;
        uint64_t bits = 0;
        for (j = first; j < last; j += D::lanes) bits |= at_least(at(j), wanted) << (j - first);
        if (bits) return first + lowest_bit(bits);
    }
}

int best_of(const double* a, const double* b, const double* c, int width) {
    return first_of_best(width, [&](int j) { return D::load(a + j) + D::load(b + j) + D::load(c + j); });
}

// ---- a sequence as it came ----------------------------------------------------------------------------------------------

BRIDLE_INLINE D read_some(const float* x, int count) { return D::widen_some(x, count, kNone); }
BRIDLE_INLINE D read_some(const double* x, int count) { return D::load_some(x, count, kNone); }

BRIDLE_INLINE const TableView& table_to(const RawScores& x, int t) { return *x.tables[x.tied && x.tied[t]]; }

// Labels that are not allowed at t; false if there are none, as for most tokens.
BRIDLE_INLINE bool ban(const RawScores& x, int t, double* row) {
    uint64_t any = 0;
    for (int k = 0; k < x.words; ++k) {
        const int count = x.m - 64 * k < 64 ? x.m - 64 * k : 64;
        uint64_t banned = ~x.allowed[size_t(t) * x.words + k] & (~uint64_t{0} >> (64 - count));
        any |= banned;
        for (; banned; banned &= banned - 1) row[64 * k + lowest_bit(banned)] = kNone;
    }
    return any != 0;
}

// row[v] = max over the columns in `bits` of column + w: two at a time, so that the maxima wait less for each other. If these are
// most of the m columns, all are taken: looking for the next one takes longer than the others.
template <int kVectors>
BRIDLE_INLINE void best_columns(const double* columns, int width, int m, uint64_t bits, const double* w, D* row) {
    D top[kVectors];
    for (int v = 0; v < kVectors; ++v) top[v] = row[v];
    const auto both = [&](int j, int k) {
        const double *left = columns + j * width, *right = columns + k * width;
        const D x = D::set(w[j]), y = D::set(w[k]);
        for (int v = 0; v < kVectors; ++v)
            top[v] = max(max(D::load(left + v * D::lanes) + x, D::load(right + v * D::lanes) + y), top[v]);
    };
    if (4 * count_bits(bits) > 3 * m) {
        for (int j = 0; j + 2 <= m; j += 2) both(j, j + 1);
        if (m % 2) both(m - 1, m - 1);
        bits = 0;
    }
    while (bits) {
        const int j = lowest_bit(bits);
        bits &= bits - 1;
        both(j, bits ? lowest_bit(bits) : j);
        bits &= bits - 1;
    }
    for (int v = 0; v < kVectors; ++v) row[v] = top[v];
}

// Few labels: the row under way stays in registers, and what can win is one word of bits. One function per number of vectors:
// all of them in one took compilers most of the time that a tier takes.
template <int kVectors, class Score>
BRIDLE_NOINLINE void scan_few(const RawScores& x, const Score* unary, int low, int high, const double* after, double* V,
                              uint64_t* few, double* H) {
    constexpr int width = kVectors * D::lanes;
    const int m = x.m, whole = m / D::lanes;
    const auto bound_of = [](const D* row, const TableView& table) {  // L
        D left = row[0] + D::load(table.least), right = D::set(table.same ? kNone : kLowest);
        for (int v = 1; v < kVectors; ++v) {
            const D here = row[v] + D::load(table.least + v * D::lanes);
            if (v % 2) right = max(here, right);
            else left = max(here, left);
        }
        return D::set(max(left, right).top());
    };
    D row[kVectors];
    for (D& r : row) r = D::set(0);
    D floor = D::set(kLowest);
    if (high < x.n) {
        for (int v = 0; v < kVectors; ++v) row[v] = D::load(after + v * D::lanes);
        floor = bound_of(row, table_to(x, high));
    }
    for (int t = high - 1; t >= low; --t) {
        if (t == x.n - 1) {
            for (int v = 0; v < kVectors; ++v) row[v] = x.end ? D::load(x.end + v * D::lanes) : D::set(0);
        } else {
            const TableView& table = table_to(x, t + 1);
            uint64_t bits = 0;
            for (int v = 0; v < kVectors; ++v)
                bits |= at_least(row[v] + D::load(table.most + v * D::lanes), floor) << (v * D::lanes);
            few[t + 1 - low] = table.n_diagonals ? bits & ~table.narrow[0] : bits;
            for (D& r : row) r = D::set(kNone);
            for (int d = 0; d < table.n_diagonals; ++d) {
                const double *scores = table.diagonals + d * width, *there = after + table.offset[d];
                for (int v = 0; v < kVectors; ++v)
                    row[v] = max(D::load(scores + v * D::lanes) + D::load(there + v * D::lanes), row[v]);
            }
            if (table.same) {
                for (int v = 0; v < kVectors; ++v) row[v] = max(D::load(table.same + v * D::lanes) + floor, row[v]);
            } else {
                const uint64_t wide_ones = bits & ~table.narrow[0];
                const double* columns = table.columns;
                constexpr int kFirst = kVectors < kStrip ? kVectors : kStrip;
                best_columns<kFirst>(columns, width, m, wide_ones, after, row);
                if constexpr (kVectors > kFirst)
                    best_columns<kVectors - kFirst>(columns + kFirst * D::lanes, width, m, wide_ones, after,
                                                    row + kFirst);
                if (uint64_t some = bits & table.narrow[0]; some && !table.n_diagonals) {
                    for (int v = 0; v < kVectors; ++v) row[v].store(H + v * D::lanes);
                    for (; some; some &= some - 1) {
                        const int j = lowest_bit(some);
                        const double* column = table.columns + j * width;
                        const D w = D::set(after[j]);
                        for (int i = table.low[j]; i < table.high[j]; i += D::lanes)
                            max(D::load(column + i) + w, D::load(H + i)).store(H + i);
                    }
                    for (int v = 0; v < kVectors; ++v) row[v] = D::load(H + v * D::lanes);
                }
            }
        }
        if (t == 0 && x.start)
            for (int v = 0; v < kVectors; ++v) row[v] = row[v] + D::load(x.start + v * D::lanes);
        const Score* u = unary + size_t(t) * m;
        double* out = V + size_t(t - low) * width;
        for (int v = 0; v < kVectors; ++v) {
            row[v] = row[v] + (v < whole ? wide(u + v * D::lanes) : read_some(u + v * D::lanes, m - v * D::lanes));
            row[v].store(out + v * D::lanes);
        }
        if (x.allowed && ban(x, t, out))
            for (int v = 0; v < kVectors; ++v) row[v] = D::load(out + v * D::lanes);
        if (t > 0) floor = bound_of(row, table_to(x, t));
        after = out;
    }
}

template <class Score>
BRIDLE_INLINE void scan_many(const RawScores& x, const Score* unary, int low, int high, const double* after, double* V,
                             double* H, int32_t* room) {
    const int m = x.m, width = x.width;
    for (int t = high - 1; t >= low; --t) {
        const Score* u = unary + size_t(t) * m;
        double* row = V + size_t(t - low) * width;
        if (t == x.n - 1)
            for (int j = 0; j < width; j += D::lanes) (x.end ? D::load(x.end + j) : D::set(0)).store(H + j);
        else step_back_inline(table_to(x, t + 1), after, H, room);
        if (t == 0 && x.start)
            for (int j = 0; j < width; j += D::lanes) (D::load(H + j) + D::load(x.start + j)).store(H + j);
        int j = 0;
        for (; j + D::lanes <= m; j += D::lanes) (wide(u + j) + D::load(H + j)).store(row + j);
        if (j < m) (read_some(u + j, m - j) + D::load(H + j)).store(row + j);
        if (x.allowed) ban(x, t, row);
        after = row;
    }
}

template <class Score>
void scan_of(const RawScores& x, const Score* unary, int low, int high, const double* after, double* V, uint64_t* few,
             double* H, int32_t* room) {
    for (int t = 0; t <= high - low; ++t) few[t] = 0;
    const int vectors = x.width > 64 ? 0 : x.width / D::lanes;
    constexpr int kMost = D::lanes == 2 ? 24 : 12;  // so that as many labels are few as with wider vectors
    if (!with_count<kMost>(vectors, [&]<int k>() { scan_few<k>(x, unary, low, high, after, V, few, H); }))
        scan_many(x, unary, low, high, after, V, H, room);
}

void scan(const RawScores& x, int low, int high, const double* after, double* V, uint64_t* few, double* H,
          int32_t* room) {
    if (x.f32) scan_of(x, x.f32, low, high, after, V, few, H, room);
    else scan_of(x, x.f64, low, high, after, V, few, H, room);
}

int follow(const RawScores& x, int low, int high, const double* V, const uint64_t* few, int y, int32_t* path) {
    const int width = x.width;
    for (int t = low; t < high; ++t, V += width, ++few) {
        const TableView& table = table_to(x, t);
        uint64_t bits = t ? *few : 0;
        if (bits && table.n_diagonals) bits |= table.short_from[y];
        if (bits && !(bits & (bits - 1))) y = lowest_bit(bits);
        else if (t == 0 || table.flat) y = first_of_best(width, [&](int j) { return D::load(V + j); });
        else {
            const double* row = table.rows + size_t(y) * width;
            uint64_t rest = bits & (bits - 1);
            rest &= rest - 1, rest &= rest - 1;
            if (bits && !rest) {  // two or three
                int best = lowest_bit(bits);
                for (bits &= bits - 1; bits; bits &= bits - 1) {
                    const int j = lowest_bit(bits);
                    if (row[j] + V[j] > row[best] + V[best]) best = j;
                }
                y = best;
            } else y = first_of_best(width, [&](int j) { return D::load(row + j) + D::load(V + j); });
        }
        if (y < 0) return -1;
        path[t] = y;
    }
    return y;
}

void step_ahead(const double* before, const double* pair, int m, int width, double* out) {
    for (int j = 0; j < width; j += D::lanes) {
        D top = D::set(kNone), other = top;
        const double* row = pair + j;
        int i = 0;
        for (; i + 2 <= m; i += 2, row += 2 * size_t(width)) {
            top = max(D::load(row) + D::set(before[i]), top);
            other = max(D::load(row + width) + D::set(before[i + 1]), other);
        }
        if (i < m) top = max(D::load(row) + D::set(before[i]), top);
        max(top, other).store(out + j);
    }
}

template <class T>
BRIDLE_INLINE int64_t first_bad_of(const T* x, int64_t count, T largest) {
    constexpr T none = static_cast<T>(kNone);
    constexpr int kBlock = 256;
    for (int64_t k = 0; k < count; k += kBlock) {
        const int64_t last = k + kBlock < count ? k + kBlock : count;
        int bad = 0;
        for (int64_t c = k; c < last; ++c) bad |= (!(x[c] <= largest)) | ((x[c] < -largest) & (x[c] != none));
        if (!bad) continue;
        for (int64_t c = k;; ++c)
            if (!(x[c] <= largest) || (x[c] < -largest && x[c] != none)) return c;
    }
    return count;
}

int64_t first_bad_float(const float* x, int64_t count, float largest) { return first_bad_of(x, count, largest); }
int64_t first_bad_double(const double* x, int64_t count, double largest) { return first_bad_of(x, count, largest); }

}  // namespace
