// What reads text and model files natively: interned strings, attributes of tokens and their tables. The fuzzer's bytes are
// columns of text, templates over them and a table of attributes as a model file has it.
#include <algorithm>
#include <string>
#include <vector>

#include "text/attributes.h"
#include "text/strings.h"
#include "bytes.h"

using namespace bridle;
using bridle::fuzz::Bytes;
using bridle::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Bytes bytes(data, size);
    const int K = 1 + bytes.below(4), columns = 1 + bytes.below(2);
    std::vector<std::vector<Place>> templates(K);
    for (std::vector<Place>& places : templates)
        for (int k = bytes.below(3); k >= 0; --k) places.push_back({bytes.below(columns), bytes.below(7) - 3});
    std::vector<uint64_t> keys;
    std::vector<int32_t> of_template;
    for (int k = bytes.below(8); k > 0; --k) {
        of_template.push_back(bytes.below(K + 2) - 1);
        uint64_t key = 0;
        for (int b = bytes.below(9); b > 0; --b) key = key << 8 | bytes.next();
        keys.push_back(key);
    }
    const int cuts = bytes.below(4);
    const std::string text(bytes.rest());

    // Strings: what is interned is found again, whatever its bytes, and nothing else is.
    Strings strings;
    const auto parts = std::count(text.begin(), text.end(), '\n') + 1;
    std::vector<int32_t> ids(parts), again(parts);
    std::vector<int64_t> begins{0};
    for (size_t k = 0; k < text.size(); ++k)
        if (text[k] == '\n') begins.push_back(int64_t(k) + 1);
    begins.push_back(int64_t(text.size()));
    const Texts texts{text.data(), begins.data(), parts};
    for (int64_t t = 0; t < parts; ++t) ids[t] = strings.add(texts[t]);
    strings.find_all(texts, again.data());
    require(ids == again, "interned strings are not found");
    for (int64_t t = 0; t < parts; ++t) require(strings.find(strings.at(ids[t])) == ids[t], "a string has two numbers");
    require(strings.find(text + "\n") == Strings::kUnknown, "a string that nobody added");

    // Attributes: columns as ids, cut into sequences; numbers that `list` gives are taken back by `put`.
    const int64_t N = parts, sizes = 3 + strings.size();
    for (int32_t& id : ids) id += 3;
    std::vector<int64_t> offsets{0};
    for (int k = 1; k <= cuts; ++k) offsets.push_back(N * k / (cuts + 1));
    offsets.push_back(N);
    const Columns all{std::vector<const int32_t*>(columns, ids.data()), offsets.data(), int64_t(offsets.size()) - 1};
    Attributes attributes(templates, std::vector<int64_t>(columns, sizes)),
        copy(templates, std::vector<int64_t>(columns, sizes));
    std::vector<int64_t> indptr(N + 1), indptr2(N + 1);
    std::vector<int32_t> attrs(size_t(N) * K + 1), attrs2(attrs.size());
    const int64_t count = attributes.fit(all, nullptr, indptr.data(), attrs.data());
    std::vector<int32_t> templates_of(attributes.size() + 1);
    std::vector<uint64_t> keys_of(attributes.size() + 1);
    attributes.list(templates_of.data(), keys_of.data());
    require(copy.put(templates_of.data(), keys_of.data(), attributes.size()),
            "a table that was written cannot be read");
    require(copy.encode(all, nullptr, indptr2.data(), attrs2.data()) == count && indptr == indptr2, "other attributes");
    require(std::equal(attrs.begin(), attrs.begin() + count, attrs2.begin()), "attributes with other numbers");
    for (int64_t a = 0; a < count; ++a)
        require(attrs[a] >= 0 && attrs[a] < attributes.size(), "an attribute without a number");

    // A table that nobody wrote: refused, or its attributes are numbers that it has.
    Attributes hostile(templates, std::vector<int64_t>(columns, sizes));
    if (hostile.put(of_template.data(), keys.data(), int32_t(keys.size()))) {
        const int64_t count = hostile.encode(all, nullptr, indptr2.data(), attrs2.data());
        for (int64_t a = 0; a < count; ++a)
            require(attrs2[a] >= 0 && attrs2[a] < int32_t(keys.size()), "a number that the table lacks");
    }
    return 0;
}
