// Agreement: tokens of one group should carry labels of one kind, within a sequence or across the sequences of a document.
//   score(y)  -  sum over groups of  price * #{consecutive tokens t < u of the group: kind[y[t]] != kind[y[u]]}
//
// Every group is a chain of its own: occurrences (o), each with a score for every kind (c). Trellises and chains share out the
// scores, and what both say of a token is averaged (dual decomposition, sequential max-marginal averaging):
//   U[t][y] = unary[t][y] - sum over the occurrences o of token t of  theta[o][kind[y]]
//   bound   = sum of the best paths under U  +  sum of the best chains under theta       >=  the optimum, for every theta
//   at o:     M1[c] = max over labels y of kind c of  F[t][y] + H[t][y]                   F: the best path to t, U[t] with it
//             M2[c] = L[o][c] + theta[o][c] + R[o][c]                                     L, R: the best of the chain on both sides
//             theta[o] -= (M2 - M1) / 2                                                   never raises the bound
// Forwards over all tokens, then backwards. After that, two labellings are read off: the best path under U, and one that decides
// token by token and asks both. Rules that these break are folded into the trellises while that is small (fold.h); what is left of
// them is left to the search of each sequence. If the bound stays above the best labelling, kinds are tried: c or not c at one o.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/instance.h"
#include "search/search.h"

namespace bridle {

// The best labelling of sequences, end to end, that are decoded together. agreements: of tokens that are counted over all of them;
// those of single sequences are among them. The answer does not say how often rules are violated.
Answer best_in_agreement(std::vector<Sequence> sequences, const std::vector<Agreement>& agreements,
                         const SearchLimits& limits, Control& control, Search& search, Counters& counters,
                         const int32_t* known = nullptr);

}  // namespace bridle
