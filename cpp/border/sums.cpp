// The border to Python, sums: log-partitions, probabilities and samples of a problem's sequences.
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "border/rules.h"
#include "search/sums.h"

namespace bridle {
namespace {

// An array to be filled in, or None.
template <class T>
T* filled(const nb::object& array, size_t size) {
    if (array.is_none()) return nullptr;
    const auto out = nb::cast<Out<T>>(array, false);
    check_length(out.size(), int64_t(size));
    return out.data();
}

Numbers numbers(const nb::object& array, size_t least) {  // float32, float64, or None
    if (array.is_none()) return {};
    const auto large = [&](size_t size) {
        if (size < least) throw nb::value_error("an array is shorter than it should be");
    };
    if (nb::isinstance<Out<float>>(array)) {
        const auto out = nb::cast<Out<float>>(array, false);
        large(out.size());
        return {.f32 = out.data()};
    }
    const auto out = nb::cast<Out<double>>(array, false);
    large(out.size());
    return {.f64 = out.data()};
}

struct Asked {
    SumRequest request;
    std::vector<int64_t> rows;
};

Asked asked(const PyProblem& self, std::vector<int> hard, std::vector<int> soft, const In<int64_t>& rows,
            const nb::object& penalties, const nb::object& allowed) {
    const Problem& p = self.problem;
    Asked out{{std::move(hard), std::move(soft)}, numbers_of(self, rows)};
    out.request.max_states = self.options().max_states;
    if (!penalties.is_none()) {
        const auto each = nb::cast<In<double>>(penalties, false);
        check_length(each.size(), int64_t(p.rules.size()));
        out.request.penalties = each.data();
    }
    if (!allowed.is_none()) {
        const auto bits = nb::cast<In<uint64_t>>(allowed, false);
        check_length(bits.size(), p.N * ((p.m + 63) / 64));
        out.request.allowed = bits.data();
    }
    return out;
}

// The row after the last one of these sequences.
size_t last_row(const Problem& p, const std::vector<int64_t>& rows) {
    size_t last = 0;
    for (const int64_t b : rows) {
        const Sequence s(p, b);
        last = std::max(last, size_t(s.first + s.n));
    }
    return last;
}

void check_labels(const Problem& p, const std::vector<int64_t>& rows, const int32_t* ids) {
    for (const int64_t b : rows)
        if (std::any_of(ids + p.offsets[b], ids + p.offsets[b + 1], [&](int32_t y) { return y < 0 || y >= p.m; }))
            throw nb::value_error("there is no such label");
}

// Sums over the labellings of sequences `rows` (B): hard rules hold, those of soft rules are factors. penalties (R): instead of the
// rules' own; allowed (N, words): bits of labels. To be filled in, each may be None: marginals (rows of the scores, m), edges
// (B, m, m), steps (N, m, m), counts (B, R), entropy (B), samples (n, N), drawn by `seed` and numbers from `number` on.
// edge_sum: ((m, m), keep (B) of 0 and 1) or None: += the bigrams of the sequences to keep. gold: (ids (N), score (B)) or None: the
// labels, bigrams and violations of these labellings are subtracted; where one is impossible, `keep` is set to 0.
// segments: (ids (N), first (S), end (S), kind (m), begins (m), ends (m), log_p (S), error (S)) or None; log_p and error are filled in.
// seconds: for each; negative: no limit. Returns (log_z, offset, error), (B) each.
nb::tuple sums_of(const PyProblem& self, std::vector<int> hard, std::vector<int> soft, In<int64_t> rows, double seconds,
                  const Stop* stop, nb::object penalties, nb::object allowed, nb::object marginals, nb::object edges,
                  nb::object steps, nb::object counts, nb::object entropy, nb::object samples, uint64_t seed,
                  int64_t number, nb::object segments, nb::object edge_sum, nb::object gold) {
    const Problem& p = self.problem;
    const Asked wanted = asked(self, std::move(hard), std::move(soft), rows, penalties, allowed);
    const size_t B = wanted.rows.size(), m = size_t(p.m), N = size_t(p.N);
    const size_t last = last_row(p, wanted.rows);
    std::vector<double> log_z(B), offset(B), error(B);
    SumOutputs out{.log_z = log_z.data(),
                   .offset = offset.data(),
                   .error = error.data(),
                   .marginals = numbers(marginals, last * m),
                   .edges = numbers(edges, B * m * m),
                   .steps = numbers(steps, N * m * m),
                   .counts = filled<double>(counts, B * p.rules.size()),
                   .entropy = filled<double>(entropy, B),
                   .seed = seed,
                   .first = number};
    if (!samples.is_none()) {
        out.n_samples = int(nb::cast<Out<int32_t>>(samples, false).shape(0));
        out.samples = filled<int32_t>(samples, size_t(out.n_samples) * N);
    }
    if (!edge_sum.is_none()) {
        out.edge_sum = filled<double>(nb::object(edge_sum[0]), m * m);
        out.keep = filled<uint8_t>(nb::object(edge_sum[1]), B);
    }
    GoldPaths paths{};
    if (!gold.is_none()) {
        const auto ids = nb::cast<In<int32_t>>(nb::object(gold[0]), false);
        check_length(ids.size(), p.N);
        check_labels(p, wanted.rows, ids.data());
        paths = {ids.data(), filled<double>(nb::object(gold[1]), B)};
        out.gold = &paths;
    }
    SegmentSums parts;
    std::vector<nb::object> kept;
    if (!segments.is_none()) {
        const auto array = [&]<class T>(int k, int64_t size) {
            const auto x = nb::cast<In<T>>(nb::object(segments[k]), false);
            if (size >= 0) check_length(x.size(), size);
            return span_of(x);
        };
        parts.ids = array.template operator()<int32_t>(0, p.N).data();
        parts.first = array.template operator()<int32_t>(1, -1);
        const auto S = int64_t(parts.first.size());
        parts.end = array.template operator()<int32_t>(2, S);
        parts.labels = {array.template operator()<int32_t>(3, p.m), array.template operator()<uint8_t>(4, p.m),
                        array.template operator()<uint8_t>(5, p.m)};
        parts.log_p = filled<double>(nb::object(segments[6]), size_t(S));
        parts.error = filled<double>(nb::object(segments[7]), size_t(S));
        check_labels(p, wanted.rows, parts.ids);
        for (int64_t k = 0; k < S; ++k)
            if (parts.first[k] < (k ? parts.end[k - 1] : 0) || parts.end[k] <= parts.first[k] || parts.end[k] > p.N)
                throw nb::value_error("segments overlap, or are beyond the tokens");
        out.segments = &parts;
    }
    freely(stop, seconds, [&](Control& c) { sum_up(p, wanted.rows, wanted.request, out, c); }, self.compiled->memory());
    return nb::make_tuple(array_of(std::move(log_z), {B}), array_of(std::move(offset), {B}),
                          array_of(std::move(error), {B}));
}

// Scores of labellings ids (N), less penalties, relative to the offsets of `sums`; counts (B, R) or None: violations of soft rules.
nb::object score_paths_of(const PyProblem& self, std::vector<int> hard, std::vector<int> soft, In<int64_t> rows,
                          In<int32_t> ids, double seconds, const Stop* stop, nb::object penalties, nb::object counts) {
    const Problem& p = self.problem;
    const Asked wanted = asked(self, std::move(hard), std::move(soft), rows, penalties, nb::none());
    const size_t B = wanted.rows.size();
    check_length(ids.size(), p.N);
    check_labels(p, wanted.rows, ids.data());
    std::vector<double> score(B);
    double* const violated = filled<double>(counts, B * p.rules.size());
    freely(
        stop, seconds,
        [&](Control& c) { score_paths(p, wanted.rows, wanted.request, ids.data(), score.data(), violated, c); },
        self.compiled->memory());
    return array_of(std::move(score), {B});
}

}  // namespace

void bind_sums(nb::class_<PyProblem>& problem) {
    problem
        .def("sums", &sums_of, "hard"_a, "soft"_a, "rows"_a, "seconds"_a, "stop"_a, nb::kw_only(),
             "penalties"_a.none() = nb::none(), "allowed"_a.none() = nb::none(), "marginals"_a.none() = nb::none(),
             "edges"_a.none() = nb::none(), "steps"_a.none() = nb::none(), "counts"_a.none() = nb::none(),
             "entropy"_a.none() = nb::none(), "samples"_a.none() = nb::none(), "seed"_a = 0, "number"_a = 0,
             "segments"_a.none() = nb::none(), "edge_sum"_a.none() = nb::none(), "gold"_a.none() = nb::none())
        .def("score_paths", &score_paths_of, "hard"_a, "soft"_a, "rows"_a, "ids"_a, "seconds"_a, "stop"_a,
             nb::kw_only(), "penalties"_a.none() = nb::none(), "counts"_a.none() = nb::none());
}

}  // namespace bridle
