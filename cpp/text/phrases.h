// Lists of phrases: which runs of tokens are phrases of a list?
//
//   trie    a node per distinct beginning of a phrase; (node, token) -> child in one hash table
//   n tokens of a sequence (t), as numbers of the list's own words; -1: a word that no phrase has
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/strings.h"

namespace bridle {

class Phrases {
  public:
    // Phrases end at line feeds, tokens at spaces. Equal beginnings should follow each other, as in sorted lines.
    explicit Phrases(std::string_view lines);

    int32_t word(std::string_view text) const { return words_.find(text); }  // its number, or -1
    int64_t count() const { return count_; }
    int64_t bytes() const {
        return int64_t(words_.bytes().size() + words_.ends().size() * 20 + edges_.size() * sizeof(Edge));
    }

    // Calls report(first, last) for each run of tokens that is a phrase; of those with the same first, shorter ones first.
    template <class Report>
    void match(std::span<const int32_t> words, const Report& report) const {
        const int n = int(words.size());
        for (int t = 0; t < n; ++t) {
            const Edge* edge = words[t] >= 0 ? &edges_[starts_[words[t]]] : nullptr;
            for (int u = t; edge && edge->child != 0; ++u) {
                if (edge->ends) report(t, u);
                const bool more = edge->inner && u + 1 < n && words[u + 1] >= 0;
                edge = more ? &edges_[slot_of(int32_t(edge->child), words[u + 1])] : nullptr;
            }
        }
    }

    // Where in a phrase each token is: 1 at its beginning, 2 inside, 3 at its end, 4 if it is a phrase of its own, 0 in none.
    // Of phrases that overlap, the one that begins first counts, and of those that begin together the longest.
    void places(std::span<const int32_t> words, int32_t* out) const;

  private:
    struct Edge {
        int32_t node, word;
        uint32_t child : 30;  // 0: the slot is free, as the root is not a child
        uint32_t ends : 1;    // does a phrase end here?
        uint32_t inner : 1;   // does a phrase go on?
    };
    size_t slot_of(int32_t node, int32_t word) const;  // where the edge is, or would go
    Edge& edge(int32_t node, int32_t word);            // made if needed

    Strings words_;
    std::vector<Edge> edges_;       // open addressing, at most two thirds full
    std::vector<uint32_t> starts_;  // (words) where the edge from the root is, or would go
    int64_t count_ = 0;
    int32_t nodes_ = 1;
};

}  // namespace bridle
