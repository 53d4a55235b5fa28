// A problem as Python lays it out, shared by the files at the border that decode.
#pragma once

#include <algorithm>
#include <vector>

#include "bindings_rules.h"

namespace bridle {

// The scores of a batch with its rules. Scores in double precision are read where they lie.
struct PyProblem {
    Problem problem;
    const Options* options = nullptr;
    std::vector<std::vector<double>> made;  // scores that had another precision
    std::vector<nb::object> kept;
    double spent = 0;   // seconds that its tables took
    bool late = false;  // did they take longer than the time limit? Then there are none.

    double left() const {  // of the time limit; negative: there is none
        return options->time_limit < 0 ? -1.0 : std::max(0.0, options->time_limit - spent);
    }

    template <class T>
    const T* keep(const nb::object& array) {
        if (array.is_none()) return nullptr;
        kept.push_back(array);
        return nb::cast<In<T>>(array, false).data();  // without a conversion, whose copy nobody would keep
    }

    void score(const nb::object& unary) {
        if (nb::isinstance<In<float>>(unary)) problem.unary32 = keep<float>(unary);
        else problem.unary64 = keep<double>(unary);
    }

    const double* doubles(const nb::object& scores) {
        if (!nb::isinstance<In<float>>(scores)) return keep<double>(scores);
        const auto from = nb::cast<In<float>>(scores, false);
        std::vector<double>& copy = made.emplace_back(from.data(), from.data() + from.size());
        copy.push_back(0.0);  // an array without numbers has an address too
        return copy.data();
    }

    // scores (m), or None, and a mask (m), or none; padded
    std::vector<double> edge(const nb::object& scores, const std::vector<double>& mask) {
        if (scores.is_none() && mask.empty()) return {};
        const int m = problem.m;
        std::vector<double> out(padded(m), -kInf);
        for (int y = 0; y < m; ++y) out[y] = mask.empty() ? 0.0 : mask[y];
        if (scores.is_none()) return out;
        const double* from = doubles(scores);
        for (int y = 0; y < m; ++y) out[y] += from[y];
        return out;
    }

    // seconds: what the table of transitions may take, before Late is thrown; negative: no limit.
    void add_head(const nb::object& pairwise, const nb::object& start, const nb::object& end, double seconds = -1) {
        Head& head = problem.heads.emplace_back();
        head.per_step = !pairwise.is_none() && nb::cast<int>(pairwise.attr("ndim")) == 3;
        head.pairwise = doubles(pairwise);
        head.start = edge(start, problem.tables->first_mask);
        head.end = edge(end, problem.tables->last_mask);
        if (!head.per_step) add_tables(head, seconds);
    }
    // pairwise (m, m) or null, which must outlive this; no scores at the ends.
    void add_head(const double* pairwise, double seconds) {
        Head& head = problem.heads.emplace_back();
        head.pairwise = pairwise;
        head.start = edge(nb::none(), problem.tables->first_mask);
        head.end = edge(nb::none(), problem.tables->last_mask);
        add_tables(head, seconds);
    }
    void add_tables(Head& head, double seconds) {
        head.tables = freely({}, seconds, [&](Control& c) {
            c.begin();
            return problem.tables->find(head.pairwise, c);
        });
    }

    void rule(PyCompiled& compiled, const PyBound* bound) {
        options = &compiled.core.options;
        problem = problem_of(compiled, bound);
    }
};

}  // namespace bridle
