// What the files at the border that are about learning share. Arrays belong to Python and are kept alive here.
#pragma once

#include <vector>

#include "border/border.h"
#include "learn/learn.h"

namespace bridle {

struct PyExamples : Examples {
    std::vector<nb::object> kept;
};

struct PyRows : Rows {
    using Rows::Rows;
    std::vector<nb::object> kept;
};

struct PyMoving : AveragedWeights {
    std::vector<nb::object> kept;
    int64_t step = 0;
    size_t slots = 0, classes = 0;  // lengths of w and of weight
};

inline double* data_or_null(const nb::object& array) {
    return array.is_none() ? nullptr : nb::cast<Out<double>>(array, false).data();
}

// A number for each of m labels, or null.
inline const double* of_labels(const nb::object& array, int m) {
    if (array.is_none()) return nullptr;
    const auto numbers = nb::cast<In<double>>(array, false);
    check_length(numbers.size(), m);
    return numbers.data();
}

}  // namespace bridle
