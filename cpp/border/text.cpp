// The border to Python, blocks of text: bytes in, buffers of Arrow arrays out, and the way back.
#include <algorithm>
#include <bit>
#include <functional>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "border/border.h"
#include "text/blocks.h"

namespace bridle {
namespace {

constexpr size_t kMost = size_t{1} << 30;  // bytes of a block: offsets have 32 bits

std::string_view block_of(const nb::bytes& data, size_t at) {
    if (data.size() > kMost || at > data.size()) throw nb::value_error("a block is too long, or begins behind its end");
    return {data.c_str(), data.size()};
}

// An array that takes over what a reader has collected; the next block will be about as large.
template <class T, class Values>
nb::object taken(Values& values) {
    auto* kept = new Values(std::move(values));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Values*>(p); });
    values = Values();
    values.reserve(kept->size() + kept->size() / 8);
    return nb::cast(nb::ndarray<nb::numpy, T>(reinterpret_cast<T*>(kept->data()), {kept->size()}, owner));
}

nb::tuple taken(StringColumn& column) {
    return nb::make_tuple(taken<uint8_t>(column.bytes), taken<int64_t>(column.ends));
}

// (stop, at, end): 0 more text is needed, 1 enough rows, 2 the sequence from `at` to `end` is unusual.
template <class Reader>
nb::tuple read_block(Reader& reader, const nb::bytes& data, size_t at, bool final, int64_t most) {
    const std::string_view text = block_of(data, at);
    size_t end = at;
    typename Reader::Stop stop;
    {
        const nb::gil_scoped_release release;
        stop = reader.read(text, at, end, final, most);
    }
    return nb::make_tuple(int(stop), at, end);
}

void make_conll(ConllReader* self, bool tab, int label, std::vector<int> slots, std::string prefix, bool always,
                bool docstart, bool ends) {
    if (slots.empty()) throw nb::value_error("there are no columns");
    const int width = int(slots.size());
    const auto count = std::count_if(slots.begin(), slots.end(), [](int slot) { return slot >= 0; });
    std::vector<bool> used(width);
    for (const int slot : slots) {
        if (slot >= count || (slot >= 0 && used[slot])) throw nb::value_error("a slot is out of order");
        if (slot >= 0) used[slot] = true;
    }
    new (self) ConllReader({tab, width, label, std::move(slots), std::move(prefix), always, docstart, ends});
}

// (rows, [(bytes, ends) of each column], rows of comments, (bytes, ends) of comments, lines that were skipped, places); it is empty
// then.
nb::tuple conll_taken(ConllReader& self) {
    nb::list columns;
    for (StringColumn& column : self.columns) columns.append(taken(column));
    nb::tuple taken_columns = nb::make_tuple(taken<int64_t>(self.rows), columns, taken<int64_t>(self.comment_rows),
                                             taken(self.comments), self.skipped, taken<int64_t>(self.places));
    self.clear();
    return taken_columns;
}

// ([(rows, known, whole, bytes, ends) of each key], places); it is empty then.
nb::tuple json_taken(JsonReader& self) {
    nb::list columns;
    for (JsonColumn& column : self.columns)
        columns.append(nb::make_tuple(taken<int64_t>(column.rows), taken<uint8_t>(column.known),
                                      taken<uint8_t>(column.whole), taken<uint8_t>(column.values.bytes),
                                      taken<int64_t>(column.values.ends)));
    nb::tuple taken_columns = nb::make_tuple(columns, taken<int64_t>(self.places));
    self.clear();
    return taken_columns;
}

void add_key(JsonReader& self, std::string name, int role, std::string needs) {
    if (role < 0 || role > int(JsonReader::Role::kSkip)) throw nb::value_error("there is no such role");
    self.add_key(std::move(name), static_cast<JsonReader::Role>(role), std::move(needs));
}

void check_offsets(const int64_t* offsets, int64_t count, int64_t most) {
    int64_t before = 0;
    for (int64_t k = 0; k < count; ++k) {
        if (offsets[k] < before) throw nb::value_error("offsets must not decrease");
        before = offsets[k];
    }
    if (before > most) throw nb::value_error("an offset is too large");
}

// The strings as a list. Equal ones are one object as a rule, which is faster to make than many and takes less memory.
nb::list listed(const In<uint8_t>& bytes, const In<int64_t>& offsets) {
    const int64_t n = int64_t(offsets.size()) - 1;
    if (n < 0 || offsets.data()[0] < 0) throw nb::value_error("offsets must begin at 0 or later");
    check_offsets(offsets.data(), n + 1, int64_t(bytes.size()));
    struct Known {
        std::string_view text;
        PyObject* string = nullptr;  // in the list
    };
    std::vector<Known> known(std::bit_ceil(size_t(std::clamp<int64_t>(n, 16, 4096))));
    nb::list strings = nb::steal<nb::list>(PyList_New(n));
    if (!strings.is_valid()) throw nb::python_error();
    const auto* data = reinterpret_cast<const char*>(bytes.data());
    for (int64_t k = 0; k < n; ++k) {
        const std::string_view text(data + offsets.data()[k], size_t(offsets.data()[k + 1] - offsets.data()[k]));
        Known& last = known[std::hash<std::string_view>{}(text) & (known.size() - 1)];
        if (last.string && last.text == text) {
            Py_INCREF(last.string);
        } else {
            last = {text, PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "surrogatepass")};
            if (!last.string) throw nb::python_error();
        }
        PyList_SetItem(strings.ptr(), k, last.string);
    }
    return strings;
}

// ---- writing --------------------------------------------------------------------------------------------------------

template <class T>
const T* data_of(nb::handle array, int64_t& size) {
    size = 0;
    if (array.is_none()) return nullptr;
    const auto numbers = nb::cast<In<T>>(array, false);  // no copy: it would be gone when this returns
    size = int64_t(numbers.size());
    return numbers.data();
}

// (rows or None, known or None, ends, whole or None, bytes): arrays that Python keeps alive during the call.
StringLists lists_of(nb::tuple parts, int64_t n) {
    StringLists lists{};
    int64_t n_rows, n_known, n_ends, n_whole, n_bytes, n_which;
    lists.rows = data_of<int64_t>(parts[0], n_rows);
    lists.known = data_of<uint8_t>(parts[1], n_known);
    lists.ends = data_of<int64_t>(parts[2], n_ends);
    lists.whole = data_of<uint8_t>(parts[3], n_whole);
    lists.bytes = reinterpret_cast<const char*>(data_of<uint8_t>(parts[4], n_bytes));
    lists.which = data_of<int32_t>(parts[5], n_which);
    const int64_t values = lists.which ? n_which : n_ends - 1;
    for (int64_t k = 0; lists.which && k < values; ++k)
        if (lists.which[k] < 0 || lists.which[k] >= n_ends - 1) throw nb::value_error("no such string");
    if (n_ends < 1 || (lists.rows ? n_rows != n + 1 : values != n) || (lists.known && n_known != n) ||
        (lists.whole && n_whole != values))
        throw nb::value_error("a column has another number of rows");
    check_offsets(lists.ends, n_ends, n_bytes);
    if (lists.rows) check_offsets(lists.rows, n_rows, values);
    return lists;
}

// (text, row at which it stopped)
nb::tuple write_conll_of(nb::list columns, nb::object comments, int64_t n, int64_t at, char separator, bool labelled,
                         std::string absent, std::string prefix, bool alone) {
    std::vector<StringLists> lists;
    for (nb::handle column : columns) lists.push_back(lists_of(nb::cast<nb::tuple>(column), n));
    if (lists.empty() || at < 0) throw nb::value_error("there are no columns, or no such row");
    StringLists above{};
    if (!comments.is_none()) above = lists_of(nb::cast<nb::tuple>(comments), n);
    const ConllForm form{separator, labelled, std::move(absent), std::move(prefix), alone};
    std::string out;
    int64_t stop;
    {
        const nb::gil_scoped_release release;
        stop = write_conll(lists, comments.is_none() ? nullptr : &above, n, at, form, out);
    }
    return nb::make_tuple(nb::bytes(out.data(), out.size()), stop);
}

// fields: (kind, text before the value, column, whether a missing value is written as null)
nb::bytes write_json_of(nb::list fields, int64_t n) {
    std::vector<JsonField> json_fields;
    for (nb::handle field : fields) {
        const auto [kind, text, values, nulls] = nb::cast<std::tuple<int, std::string, nb::tuple, bool>>(field);
        if (kind < 0 || kind > 2) throw nb::value_error("there is no such kind");
        json_fields.push_back({static_cast<JsonField::Kind>(kind), text, lists_of(values, n), nulls});
        const bool is_list = json_fields.back().values.rows != nullptr;
        if (is_list != (kind == 2)) throw nb::value_error("only a list has rows");
    }
    std::string out;
    {
        const nb::gil_scoped_release release;
        write_json(json_fields, n, out);
    }
    return nb::bytes(out.data(), out.size());
}

}  // namespace

void bind_text(nb::module_& module) {
    nb::class_<ConllReader>(module, "ConllReader")
        .def("__init__", &make_conll, "tab"_a, "label"_a, "slots"_a, "prefix"_a, "always"_a, "docstart"_a,
             "ends"_a = false)
        .def("read", &read_block<ConllReader>, "data"_a, "at"_a, "final"_a, "most"_a)
        .def("__len__", [](const ConllReader& self) { return self.rows.size() - 1; })
        .def("take", &conll_taken);
    module.def(
        "end_of_sequence",
        [](nb::bytes data, size_t at, bool final) {
            const size_t end = end_of_sequence(block_of(data, at), at, final);
            return end == std::string_view::npos ? int64_t{-1} : int64_t(end);
        },
        "data"_a, "at"_a, "final"_a);
    nb::class_<JsonReader>(module, "JsonReader")
        .def(nb::init<>())
        .def("add_key", &add_key, "name"_a, "role"_a, "needs"_a)
        .def("read", &read_block<JsonReader>, "data"_a, "at"_a, "final"_a, "most"_a)
        .def("__len__", [](const JsonReader& self) { return self.n_rows; })
        .def("take", &json_taken);
    module.def("listed", &listed, "bytes"_a, "offsets"_a);
    module.def("write_conll", &write_conll_of, "columns"_a, "comments"_a.none(), "n"_a, "at"_a, "separator"_a,
               "labelled"_a, "absent"_a, "prefix"_a, "alone"_a);
    module.def("write_json", &write_json_of, "fields"_a, "n"_a);
}

}  // namespace bridle
