#include "search/table.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <unordered_map>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace bridle {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kDiagonals = sizeof TableView::offset / sizeof(int);
constexpr int kTile = 16;  // rows and columns that are turned together, so that both stay near

// In huge pages where the system has them: to be given small pages one by one takes longer than to fill them.
Doubles many_doubles(size_t count) {
    constexpr size_t kPage = size_t{1} << 21;
    const size_t bytes = count * sizeof(double);
    void* memory = nullptr;
#ifdef __linux__
    if (bytes >= 2 * kPage) {
        memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
        if (memory) madvise(memory, bytes, MADV_HUGEPAGE);
    }
#endif
    if (!memory) memory = std::malloc(std::max<size_t>(bytes, 1));
    if (!memory) throw std::bad_alloc();
    return Doubles(static_cast<double*>(memory));
}

}  // namespace

void Table::shape(int m) {
    view_ = TableView{};
    view_.m = m, view_.width = padded(m);
    const size_t cells = size_t(m) * view_.width;
    if (cells > room_) {
        rows_ = many_doubles(cells), columns_ = many_doubles(cells);
        room_ = cells;
    }
}

// One pass over memory: some rows are made, their least and largest scores noted, and turned into columns while they are near.
template <class Fill>
bool Table::lay(const Fill& fill, Control& control) {
    const int m = view_.m, width = view_.width;
    least_.assign(width, kInf), most_.assign(width, -kInf);
    for (int i0 = 0; i0 < m; i0 += kTile) {
        control.check();
        const int i1 = std::min(m, i0 + kTile);
        for (int i = i0; i < i1; ++i) {
            double* row = rows_.get() + size_t(i) * width;
            fill(i, row);
            std::fill(row + m, row + width, -kInf);
            for (int j = 0; j < m; ++j) {
                least_[j] = row[j] < least_[j] ? row[j] : least_[j];
                most_[j] = row[j] > most_[j] ? row[j] : most_[j];
            }
        }
        for (int j0 = 0; j0 < m; j0 += kTile)
            for (int j = j0; j < std::min(m, j0 + kTile); ++j)
                for (int i = i0; i < i1; ++i) columns_[size_t(j) * width + i] = rows_[size_t(i) * width + j];
    }
    for (int j = 0; j < m; ++j) {
        double* column = columns_.get() + size_t(j) * width;
        std::fill(column + m, column + width, -kInf);
    }
    std::fill(least_.begin() + m, least_.end(), -kInf);
    return std::all_of(least_.begin(), least_.begin() + m, [](double x) { return x > -kInf; });
}

void Table::publish() {
    view_.columns = columns_.get(), view_.rows = rows_.get();
    view_.least = least_.data(), view_.most = most_.data();
    view_.low = low_.data(), view_.high = high_.data();
    view_.narrow = narrow_.data();
    find_diagonals();
}

void Table::build(int m, const double* pairwise, const double* mask, Control& control) {
    serial_ = next_serial();
    const size_t square = size_t(m) * m;
    const auto zero = [&](const double* x) {
        return !x || std::all_of(x, x + square, [](double v) { return v == 0; });
    };
    if (zero(pairwise) && zero(mask)) {
        view_ = TableView{};
        view_.m = m, view_.width = padded(m), view_.flat = true;
        least_.assign(view_.width, 0.0);
        view_.rows = view_.least = view_.most = view_.same = least_.data();
        return;
    }
    shape(m);
    const bool finite = lay(
        [&](int i, double* row) {
            const size_t from = size_t(i) * m;
            if (pairwise) std::copy_n(pairwise + from, m, row);
            else std::fill_n(row, m, 0.0);
            for (int j = 0; mask && j < m; ++j) row[j] += mask[from + j];
        },
        control);
    if (finite) {  // every column leads from all labels
        low_.assign(m, 0), high_.assign(m, view_.width);
        narrow_.assign((size_t(view_.width) + 63) / 64, 0);
        from_.assign(m, From::all);
    } else {
        find_support(control);
        find_limits();
    }
    publish();
}

void Table::adjust(const Table& base, const double* adjust, Control& control) {
    serial_ = next_serial();
    const int m = base.view_.m;
    if (base.view_.flat) return build(m, adjust, nullptr, control);
    shape(m);
    const bool finite = lay(
        [&](int i, double* row) {
            const double *from = base.row(i), *add = adjust + size_t(i) * m;
            for (int j = 0; j < m; ++j) row[j] = from[j] + add[j];
        },
        control);
    from_ = base.from_, low_ = base.low_, high_ = base.high_, narrow_ = base.narrow_;
    if (!finite) find_limits();
    publish();
}

bool Table::made_of(const double* pairwise, const double* mask) const {
    const int m = view_.m;
    for (int i = 0; i < m; ++i) {
        const double *here = row(i), *scores = pairwise + size_t(i) * m;
        if (!mask && !view_.flat) {
            if (std::memcmp(scores, here, m * sizeof(double)) != 0) return false;
            continue;
        }
        const double* masked = mask ? mask + size_t(i) * m : here;
        bool same = true;
        for (int j = 0; j < m; ++j) same &= scores[j] + (mask ? masked[j] : 0.0) == here[j];
        if (!same) return false;
    }
    return true;
}

// D: the labels that those columns lead from which together hold the most scores.
void Table::find_support(Control& control) {
    const int m = view_.m, width = view_.width, lanes = kernels().lanes;
    const size_t words = (size_t(width) + 63) / 64;
    low_.assign(m, 0), high_.assign(m, 0);
    narrow_.assign(words, 0);
    from_.assign(m, From::all);
    std::vector<uint64_t> leads(words * m, 0), hash(m, 1469598103934665603ull);  // leads: bit i of column j
    std::unordered_map<uint64_t, int64_t> held;  // scores of the columns that lead from the same labels
    int dominant = 0;
    for (int j = 0; j < m; ++j) {
        if (j % kTile == 0) control.check();
        const double* column = &columns_[size_t(j) * width];
        uint64_t* bits = &leads[words * j];
        int low = m, high = 0, count = 0;
        for (int i = 0; i < m; ++i) {
            if (column[i] == -kInf) continue;
            bits[i / 64] |= uint64_t{1} << (i % 64);
            low = std::min(low, i), high = i + 1, ++count;
        }
        low_[j] = low / lanes * lanes, high_[j] = (high + lanes - 1) / lanes * lanes;
        if (4 * (high_[j] - low_[j]) <= width) narrow_[j / 64] |= uint64_t{1} << (j % 64);
        for (size_t k = 0; k < words; ++k) hash[j] = (hash[j] ^ bits[k]) * 1099511628211ull;
        held[hash[j]] += count;
        if (held[hash[j]] > held[hash[dominant]]) dominant = j;
    }
    const uint64_t* D = &leads[words * dominant];
    for (int j = 0; j < m; ++j)
        for (size_t k = 0; k < words; ++k) {
            const uint64_t bits = leads[words * j + k];
            if (bits & ~D[k]) from_[j] = From::others;
            else if (bits != D[k] && from_[j] == From::all) from_[j] = From::some;
        }
}

void Table::find_diagonals() {
    const int m = view_.m, width = view_.width;
    view_.n_diagonals = 0;
    const auto each = [&](const auto& call) {  // false: call said so
        for (int j = 0; j < m; ++j)
            if (narrow_[j / 64] >> (j % 64) & 1)
                for (int i = low_[j]; i < std::min(high_[j], m); ++i)
                    if (columns_[size_t(j) * width + i] > -kInf && !call(i, j)) return false;
        return true;
    };
    const auto number = [&](int offset) {
        return int(std::find(view_.offset, view_.offset + view_.n_diagonals, offset) - view_.offset);
    };
    const bool few = each([&](int i, int j) {
        if (number(j - i) < view_.n_diagonals) return true;
        if (view_.n_diagonals == kDiagonals || std::abs(j - i) > kGuard) return false;
        view_.offset[view_.n_diagonals++] = j - i;
        return true;
    });
    if (!few) view_.n_diagonals = 0;
    diagonals_.assign(size_t(view_.n_diagonals) * width, -kInf);
    short_from_.assign(m <= 64 ? m : 0, 0);
    if (view_.n_diagonals)
        each([&](int i, int j) {
            diagonals_[size_t(number(j - i)) * width + i] = columns_[size_t(j) * width + i];
            if (m <= 64) short_from_[i] |= uint64_t{1} << j;
            return true;
        });
    bool alike = true;  // each of the others leads from D with the same score everywhere
    double score = kInf;
    for (int j = 0; j < m; ++j) {
        if (narrow_[j / 64] >> (j % 64) & 1) alike = alike && (view_.n_diagonals > 0 || high_[j] == 0);
        else {
            alike = alike && from_[j] == From::all && least_[j] == most_[j] && (score == kInf || score == least_[j]);
            score = least_[j];
        }
    }
    if (alike && score < kInf) {
        same_.assign(width, -kInf);
        const auto wide = int(std::find(least_.begin(), least_.end(), score) - least_.begin());
        for (int i = 0; i < m; ++i)
            if (columns_[size_t(wide) * width + i] > -kInf) same_[i] = 0.0;
        view_.same = same_.data();
    }
    view_.diagonals = diagonals_.data();
    view_.short_from = m <= 64 ? short_from_.data() : nullptr;
}

void Table::find_limits() {
    const int m = view_.m, width = view_.width;
    least_.assign(width, -kInf), most_.assign(width, -kInf);
    for (int j = 0; j < m; ++j) {
        const double* column = &columns_[size_t(j) * width];
        double least = kInf, most = -kInf;
        for (int i = low_[j]; i < std::min(high_[j], m); ++i) {
            most = std::max(most, column[i]);
            if (column[i] > -kInf) least = std::min(least, column[i]);
        }
        if (from_[j] == From::all) least_[j] = least;
        most_[j] = from_[j] == From::others ? kInf : most;
    }
}

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

Head TableCache::head(const HeadScores& scores) const {
    const auto edge = [&](const double* edge_scores, const std::vector<double>& mask) -> std::vector<double> {
        if (!edge_scores && mask.empty()) return {};
        std::vector<double> out(padded(m), -kInf);
        for (int y = 0; y < m; ++y) out[y] = (mask.empty() ? 0.0 : mask[y]) + (edge_scores ? edge_scores[y] : 0.0);
        return out;
    };
    return {.pairwise = scores.pairwise,
            .per_step = scores.per_step,
            .start = edge(scores.start, first_mask),
            .end = edge(scores.end, last_mask),
            .tables = nullptr};
}

std::shared_ptr<const Tables> TableCache::find(const double* pairwise, Control& control) {
    const double* mask = free_mask.empty() ? nullptr : free_mask.data();
    std::unique_lock lock(mutex_, std::try_to_lock);
    while (!lock) {  // another thread may be at a large table for long
        control.check();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        lock.try_lock();
    }
    size_t k = 0;
    const auto same = [&](const Entry& e) {
        return e.scored == (pairwise != nullptr) && (!pairwise || e.tables->free.made_of(pairwise, mask));
    };
    while (k < entries_.size() && !same(entries_[k])) ++k;
    if (k == entries_.size()) {
        auto tables = std::make_shared<Tables>();
        tables->free.build(m, pairwise, mask, control);
        if (!tied_mask.empty()) tables->tied.build(m, pairwise, tied_mask.data(), control);
        entries_.push_front({pairwise != nullptr, std::move(tables)});
        const size_t cells = size_t(m) * m;
        while (entries_.size() > 1 && (entries_.size() > kMostEntries || entries_.size() * cells > kMostCells))
            entries_.pop_back();
        k = 0;
        size_t held = 0;
        for (const Entry& e : entries_) held += e.tables->free.bytes() + e.tables->tied.bytes();
        held_ = held;
    }
    return entries_[k].tables;
}

size_t TableCache::bytes() const {
    return held_ + sizeof(double) * (free_mask.size() + tied_mask.size() + first_mask.size() + last_mask.size());
}

}  // namespace bridle
