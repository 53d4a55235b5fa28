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

template <class T>
const T* keep(std::vector<nb::object>& kept, const nb::object& array) {
    if (array.is_none()) return nullptr;
    kept.push_back(array);
    return nb::cast<In<T>>(array, false).data();  // without a conversion, whose copy nobody would keep
}

// The kernels trust lengths, so they are looked at here.
inline void check_length(size_t got, int64_t wanted) {
    if (static_cast<int64_t>(got) != wanted) throw nb::value_error("an array has another length than it should");
}

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
