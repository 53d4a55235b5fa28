// Keys of attributes: one more place of a template joins its ids to the keys of some tokens (attributes.h).

namespace {

void add_place(const int32_t* ids, const int32_t* room, int32_t offset, int32_t beyond, uint64_t size, bool exact,
               int count, uint64_t* key, int32_t* none) {
    const auto most = int32_t(size < INT32_MAX ? size : INT32_MAX);
    for (int c = 0; c < count; ++c) {
        const int32_t id = room[c] >= offset ? ids[c] : beyond;
        none[c] |= (id <= 0) | (id >= most);
        key[c] = key_with(key[c], size, id, exact);
    }
}

}  // namespace
