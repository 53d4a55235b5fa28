// The border to Python, texts as Arrow keeps them: bytes end to end, and where each text begins.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>

#include "bindings_learning.h"
#include "texts.h"

namespace bridle {
namespace {

// The kernels trust offsets, so they are looked at here.
Texts texts_of(In<uint8_t> bytes, In<int64_t> offsets) {
    const auto count = static_cast<int64_t>(offsets.size()) - 1;
    const int64_t* at = offsets.data();
    if (count < 0 || at[0] < 0 || at[count] > static_cast<int64_t>(bytes.size()) || !std::is_sorted(at, at + count + 1))
        throw nb::value_error("the offsets of texts do not rise from 0 to the number of bytes");
    return {reinterpret_cast<const char*>(bytes.data()), at, count};
}

void find_texts_of(const Strings& self, In<uint8_t> bytes, In<int64_t> offsets, Out<int32_t> out) {
    const Texts texts = texts_of(bytes, offsets);
    check_length(out.size(), texts.count);
    const nb::gil_scoped_release release;
    find_texts(self, texts, out.data());
}

// at: which of them, or None: all. They are added as they are, so this is not for strings that are escaped.
void add_texts_of(Strings& self, In<uint8_t> bytes, In<int64_t> offsets, nb::object at, Out<int32_t> out) {
    const Texts texts = texts_of(bytes, offsets);
    const auto count = static_cast<int64_t>(out.size());
    const int64_t* which = nullptr;
    if (at.is_none()) check_length(out.size(), texts.count);
    else {
        const auto numbers = nb::cast<In<int64_t>>(at, false);
        check_length(numbers.size(), count);
        which = numbers.data();
        const auto beyond = [&](int64_t k) { return k < 0 || k >= texts.count; };
        if (std::any_of(which, which + count, beyond)) throw nb::value_error("there is no such text");
    }
    const nb::gil_scoped_release release;
    add_texts(self, texts, which, count, out.data());
}

// False: there is no such function here.
bool derive_of(const Strings& self, const std::string& function, In<uint8_t> bytes, In<int64_t> offsets, int32_t first,
               Out<int32_t> out) {
    const auto how = derivation_named(function);
    if (!how) return false;
    const Texts texts = texts_of(bytes, offsets);
    check_length(out.size(), texts.count);
    const nb::gil_scoped_release release;
    derived_ids(self, *how, texts, first, out.data());
    return true;
}

}  // namespace

void bind_texts(nb::class_<Strings>& strings) {
    strings.def("find_texts", &find_texts_of, nb::arg("bytes"), nb::arg("offsets"), nb::arg("out"))
        .def("add_texts", &add_texts_of, nb::arg("bytes"), nb::arg("offsets"), nb::arg("at").none(), nb::arg("out"))
        .def("derive", &derive_of, nb::arg("function"), nb::arg("bytes"), nb::arg("offsets"), nb::arg("first"),
             nb::arg("out"));
}

}  // namespace bridle
