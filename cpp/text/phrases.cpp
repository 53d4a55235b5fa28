#include "text/phrases.h"

#include <algorithm>
#include <stdexcept>

#include "simd/compiler.h"

namespace bridle {
namespace {

constexpr int64_t kMostNodes = int64_t{1} << 29;

// Calls visit(part) for the parts of a text between marks.
template <class Visit>
void each_part(std::string_view text, char mark, const Visit& visit) {
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(mark, at), text.size());
        if (end > at) visit(text.substr(at, end - at));
        at = end + 1;
    }
}

// An upper bound on the nodes of the trie: a token is a new one unless the line before begins with the same tokens.
int64_t nodes_of(std::string_view lines) {
    int64_t nodes = 1;
    std::string_view before;
    each_part(lines, '\n', [&](std::string_view line) {
        const size_t most = std::min(line.size(), before.size());
        const size_t same = std::mismatch(line.begin(), line.begin() + most, before.begin()).first - line.begin();
        nodes += 1 + std::count(line.begin() + same, line.end(), ' ');
        before = line;
    });
    return nodes;
}

}  // namespace

Phrases::Phrases(std::string_view lines) {
    const int64_t nodes = nodes_of(lines);
    if (nodes > kMostNodes) throw std::length_error("a list has too many phrases");
    edges_.assign(nodes + nodes / 2 + 2, Edge{0, 0, 0, 0, 0});
    each_part(lines, '\n', [&](std::string_view line) {
        Edge* last = nullptr;
        int32_t node = 0;
        each_part(line, ' ', [&](std::string_view token) {
            if (last) last->inner = 1;
            last = &edge(node, words_.add(token));
            node = int32_t(last->child);
        });
        if (!last || last->ends) return;
        last->ends = 1;
        ++count_;
    });
    starts_.resize(words_.size());
    for (int32_t word = 0; word < words_.size(); ++word) starts_[word] = uint32_t(slot_of(0, word));
}

void Phrases::places(std::span<const int32_t> words, int32_t* out) const {
    std::fill_n(out, words.size(), 0);
    int free = 0;  // the first token that is in no phrase yet
    const auto put = [&](int first, int last) {
        for (int t = first; t <= last; ++t) out[t] = t == first ? 1 : t == last ? 3 : 2;
        if (first == last) out[first] = 4;
        free = last + 1;
    };
    int begin = -1, end = -1;  // the current phrase
    match(words, [&](int first, int last) {
        if (first != begin && begin >= free) put(begin, end);
        if (first >= free) begin = first, end = last;
    });
    if (begin >= free) put(begin, end);
}

size_t Phrases::slot_of(int32_t node, int32_t word) const {
    static const uint64_t start = 0x9e3779b97f4a7c15u ^ salt();
    const uint64_t key = (uint64_t(uint32_t(node)) << 32) | uint32_t(word);
    const uint64_t hash = folded_product(key ^ start, 0xd6e8feb86659fd93u);
    const size_t size = edges_.size();
    size_t slot = ((hash >> 32) * size) >> 32;
    while (edges_[slot].child != 0 && (edges_[slot].node != node || edges_[slot].word != word))
        if (++slot == size) slot = 0;
    return slot;
}

Phrases::Edge& Phrases::edge(int32_t node, int32_t word) {
    Edge& slot = edges_[slot_of(node, word)];
    if (slot.child == 0) slot = {node, word, uint32_t(nodes_++), 0, 0};
    return slot;
}

}  // namespace bridle
