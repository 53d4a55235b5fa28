#include "heads.h"

namespace bridle {
namespace {

constexpr size_t kMostEntries = 4, kMostCells = size_t{1} << 22;  // numbers of all copies together, but for the newest

}  // namespace

TableCache::TableCache(int m, std::vector<double> free_mask, std::vector<double> tied_mask,
                       std::vector<double> first_mask, std::vector<double> last_mask)
    : m(m),
      free_mask(std::move(free_mask)),
      tied_mask(std::move(tied_mask)),
      first_mask(std::move(first_mask)),
      last_mask(std::move(last_mask)) {}

std::shared_ptr<const Tables> TableCache::find(const double* pairwise, Control& control) {
    const double* mask = free_mask.empty() ? nullptr : free_mask.data();
    const std::lock_guard lock(mutex_);
    size_t k = 0;
    const auto same = [&](const Entry& e) {
        return e.scored == (pairwise != nullptr) && (!pairwise || e.tables->free.made_of(pairwise, mask));
    };
    while (k < entries_.size() && !same(entries_[k])) ++k;
    if (k == entries_.size()) {
        auto made = std::make_shared<Tables>();
        made->free.build(m, pairwise, mask, control);
        if (!tied_mask.empty()) made->tied.build(m, pairwise, tied_mask.data(), control);
        entries_.push_front({pairwise != nullptr, std::move(made)});
        const size_t cells = static_cast<size_t>(m) * m;
        while (entries_.size() > 1 && (entries_.size() > kMostEntries || entries_.size() * cells > kMostCells))
            entries_.pop_back();
        k = 0;
    }
    return entries_[k].tables;
}

}  // namespace bridle
