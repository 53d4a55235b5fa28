// What the files at the border to Python share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "search/control.h"

namespace bridle {

namespace nb = nanobind;
using namespace nb::literals;

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const In<T>& array) {
    return {array.data(), array.size()};
}

// The numbers of an array, which is kept alive; null: it is None.
template <class T>
const T* keep(std::vector<nb::object>& kept, const nb::object& array) {
    if (array.is_none()) return nullptr;
    kept.push_back(array);
    return nb::cast<In<T>>(array, false).data();  // without a conversion, whose copy would not be kept
}

// The kernels trust lengths, so they are looked at here.
inline void check_length(size_t got, int64_t wanted) {
    if (int64_t(got) != wanted) throw nb::value_error("an array has another length than it should");
}

// An array of NumPy with these numbers.
template <class T>
nb::object array_of(std::vector<T> numbers, std::initializer_list<size_t> shape) {
    auto* kept = new std::vector<T>(std::move(numbers));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

// Has the user pressed Ctrl-C? The error stays set for the caller.
inline bool interrupted() {
    const nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

// Work was stopped, by the user or by another thread that has set its Stop.
[[noreturn]] inline void raise_stopped() {
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
}

// Runs a kernel without the GIL; when it was stopped, raises what stopped it. stop: null if nothing can. seconds: negative means no
// limit.
template <class Work>
auto freely(const Stop* stop, double seconds, const Work& work, size_t memory = Control::kUnlimited) {
    const Stop never;
    try {
        const nb::gil_scoped_release release;
        Control control(stop ? *stop : never, interrupted, seconds, memory);
        return work(control);
    } catch (const Stopped&) {
        raise_stopped();
    }
}

void bind_learning(nb::module_& module);    // learning.cpp
void bind_edges(nb::module_& module);       // perceptron.cpp
void bind_perceptron(nb::module_& module);  // perceptron.cpp
void bind_tagging(nb::module_& module);     // tagging.cpp
void bind_text(nb::module_& module);        // text.cpp

}  // namespace bridle
