// The maximum over some columns j of a table:  out[i] = max over j of  column[j][i] + w[j]
//   columns (m, width)    list: which columns, `count` of them    w (m)    out (width)

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
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
            const double *one = columns + static_cast<size_t>(list[c]) * width,
                         *two = columns + static_cast<size_t>(list[c + 1]) * width;
            const D x = D::set(w[list[c]]), y = D::set(w[list[c + 1]]);
            for (int v = 0; v < kVectors; ++v) {
                top[v] = max(D::load(one + v * D::lanes) + x, top[v]);
                other[v] = max(D::load(two + v * D::lanes) + y, other[v]);
            }
        }
        for (int v = 0; v < kVectors; ++v) top[v] = max(top[v], other[v]);
    }
    for (; c < count; ++c) {
        const double* column = columns + static_cast<size_t>(list[c]) * width;
        const D x = D::set(w[list[c]]);
        for (int v = 0; v < kVectors; ++v) top[v] = max(D::load(column + v * D::lanes) + x, top[v]);
    }
    for (int v = 0; v < kVectors; ++v) top[v].store(out + v * D::lanes);
}

// The strip of so many vectors, one of k.
template <int... k>
BRIDLE_INLINE void strip_of(Counts<k...>, int vectors, const double* columns, int width, const int32_t* list, int count,
                            const double* w, double* out) {
    (void)((vectors == k && (strip<k>(columns, width, list, count, w, out), true)) || ...);
}

BRIDLE_INLINE void all_strips(const double* columns, int width, const int32_t* list, int count, const double* w,
                              double* out) {
    int left = width / D::lanes;
    while (left > 0) {
        const int strips = (left + kStrip - 1) / kStrip, now = (left + strips - 1) / strips;  // of about the same size
        const int done = now < 12 ? now : 12;
        strip_of(UpToTwelve(), done, columns, width, list, count, w, out);
        columns += done * D::lanes;
        out += done * D::lanes;
        left -= done;
    }
}

// The same for a table that is too large for the near caches: four whole columns at a time, which memory delivers fastest.
BRIDLE_INLINE void stream(const double* columns, int width, const int32_t* list, int count, const double* w,
                          double* out) {
    for (int i = 0; i < width; i += D::lanes) D::set(kNone).store(out + i);
    const auto column = [&](int c) { return columns + static_cast<size_t>(list[c]) * width; };
    int c = 0;
    for (; c + 4 <= count; c += 4) {
        const double *a = column(c), *b = column(c + 1), *d = column(c + 2), *e = column(c + 3);
        const D wa = D::set(w[list[c]]), wb = D::set(w[list[c + 1]]), wd = D::set(w[list[c + 2]]),
                we = D::set(w[list[c + 3]]);
        for (int i = 0; i < width; i += D::lanes) {
            const D one = max(D::load(a + i) + wa, D::load(b + i) + wb),
                    two = max(D::load(d + i) + wd, D::load(e + i) + we);
            max(max(one, two), D::load(out + i)).store(out + i);
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

}  // namespace
