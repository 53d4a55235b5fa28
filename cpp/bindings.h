// What the files at the border to Python share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "control.h"

namespace bridle {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

// Has the user pressed Ctrl-C? The error stays set for the caller.
inline bool interrupted() {
    const nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

// Runs a kernel without the GIL; when it was stopped, raises what stopped it. seconds: negative means no limit.
template <class Work>
auto freely(const Stop& stop, double seconds, const Work& work, size_t memory = Control::kUnlimited) {
    try {
        const nb::gil_scoped_release release;
        Control control(stop, interrupted, seconds, memory);
        return work(control);
    } catch (const Stopped&) {
        if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw nb::python_error();
    }
}

void bind_learning(nb::module_& module);    // bindings_learning.cpp
void bind_edges(nb::module_& module);       // bindings_edges.cpp
void bind_perceptron(nb::module_& module);  // bindings_perceptron.cpp
void bind_tagging(nb::module_& module);     // bindings_tagging.cpp
void bind_text(nb::module_& module);        // bindings_text.cpp

}  // namespace bridle
