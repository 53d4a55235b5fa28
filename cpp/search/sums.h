// Sums over the labellings of sequences, under hard rules and with soft rules as factors (sums_chain.h has the equations).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/control.h"
#include "search/problem.h"

namespace bridle {

// Numbers in one of the two precisions, or none.
struct Numbers {
    float* f32 = nullptr;
    double* f64 = nullptr;

    explicit operator bool() const { return f32 || f64; }
    void put(size_t at, double x) const {
        if (f32) f32[at] = float(x);
        else f64[at] = x;
    }
    void subtract_one(size_t at) const {
        if (f32) f32[at] -= 1.0f;
        else if (f64) f64[at] -= 1.0;
    }
};

struct SumRequest {
    std::vector<int> hard, soft;        // rules that hold; rules whose violations are factors exp(-penalty)
    const double* penalties = nullptr;  // (R) null: those of the problem
    const uint64_t* allowed = nullptr;  // (N, words) labels that are allowed, too; null: all are
    int64_t max_states = -1;
};

// Where segments begin: label j begins one after label i.
struct LabelKinds {
    std::span<const int32_t> kind;         // (m) of the segment type
    std::span<const uint8_t> first, last;  // (m) labels that always begin or end a segment
    bool begins(int i, int j) const { return kind[i] != kind[j] || first[j] || last[i]; }
};

// Segments of labellings, none of which overlap: tokens first .. end-1, counted over all tokens. Their probabilities are those of
// these very labels as one segment.
struct SegmentSums {
    LabelKinds labels;
    const int32_t* ids;                   // (N)
    std::span<const int32_t> first, end;  // (S) rising
    double *log_p, *error;                // (S) filled in
};

// Labellings whose labels, bigrams and violations are subtracted from what is expected of all.
struct GoldPaths {
    const int32_t* ids;  // (N)
    double* score;       // (B) filled in, as `score_paths` does; sequences of which it is not finite are not kept
};

// What is wanted of B sequences (x); null: not wanted.
struct SumOutputs {
    double* log_z;               // (B) relative to offset; +inf: too large, NaN: out of time, -inf: no labelling obeys
    double* offset;              // (B) the sum of the largest scores, which is the same for every choice of rules
    double* error;               // (B) how far rounding can have taken log_z, or the log of a marginal, from the truth
    Numbers marginals;           // (rows, m), in the rows of the scores
    Numbers edges;               // (B, m, m) expected number of label bigrams
    double* edge_sum = nullptr;  // (m, m) += the sum of those of the sequences to `keep`
    uint8_t* keep = nullptr;     // (B) null: all
    Numbers steps;               // (N, m, m) of each position; nothing is said of the first one
    double* counts = nullptr;    // (B, R) expected violations of soft rules: 0 or 1 where they are paid once
    double* entropy = nullptr;   // (B)
    int32_t* samples = nullptr;  // (n_samples, N)
    int n_samples = 0;
    uint64_t seed = 0;
    int64_t first = 0;  // number of sequence 0 of the problem in what was asked for
    const GoldPaths* gold = nullptr;
    const SegmentSums* segments = nullptr;
};

// Sequences by number.
void sum_up(const Problem& problem, std::span<const int64_t> sequences, const SumRequest& request,
            const SumOutputs& out, Control& control);

// Scores of labellings ids (N), less penalties, relative to the offsets of `sum_up`; -inf: one is impossible or breaks a hard
// rule; NaN: out of time. counts (B, R) or null: how often they violate soft rules.
void score_paths(const Problem& problem, std::span<const int64_t> sequences, const SumRequest& request,
                 const int32_t* ids, double* score, double* counts, Control& control);

}  // namespace bridle
