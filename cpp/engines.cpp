#include "engines.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "beam.h"

namespace bridle {

Answer run_viterbi(const Sequence& s, const Options&, Control& control, Search&, int64_t*) {
    thread_local Trellis trellis;
    thread_local Steps steps;
    static const Fold plain = [] { Fold f; f.clear(); return f; }();
    Answer out;
    out.path.resize(s.n);
    trellis.load(s);
    steps.plain(s);
    out.score = out.bound = trellis.best_path(plain, steps, out.path.data(), control);
    out.status = out.score > -kInf ? Status::optimal : Status::infeasible;
    return out;
}

Answer run_search(const Sequence& s, const Options& options, Control& control, Search& search, int64_t* counters) {
    search.small_fold = options.fold_states;
    Answer out = search.best(s, options.max_states, control);
    const Counters& c = search.counters;
    const int64_t values[] = {c.rounds, c.passes, c.expansions, c.states, c.active, c.multipliers};
    std::copy(std::begin(values), std::end(values), counters);
    return out;
}

Answer run_beam(const Sequence& s, const Options& options, Control& control, Search&, int64_t*) {
    Trellis trellis;
    Steps steps;
    Fold plain;
    plain.clear();
    trellis.load(s);
    steps.plain(s);
    Answer out;
    out.path.resize(s.n);
    out.bound = trellis.best_path(plain, steps, out.path.data(), control);  // no rule can make it better
    Team team;
    team.set(s.pieces);
    const std::vector<Found> found = beam(trellis, steps, team, options.width, nullptr, control);
    if (found.empty()) {
        out.status = out.bound > -kInf ? Status::nothing_found : Status::infeasible;
        return out;
    }
    out.path = found[0].path;
    out.score = found[0].score;
    out.bound = std::max(out.bound, out.score);
    out.status = out.bound > out.score + 1e-9 * std::max(1.0, std::abs(out.score)) ? Status::limit : Status::optimal;
    return out;
}

Engine engine_by_name(const std::string& name) {
    if (name == "viterbi") return run_viterbi;
    if (name == "search") return run_search;
    if (name == "beam") return run_beam;
    if (name == "product") return run_product;
    if (name == "relax") return run_relax;
    if (name == "two_stage") return run_two_stage;
    return nullptr;
}

void violations(const Sequence& s, const int32_t* path, int32_t* hits) {
    for (const Piece& p : s.pieces) {
        int state = 0;
        for (int t = 0; t < s.n; ++t) {
            const int cell = p.at(t, state, path[t]);
            hits[p.rule] += p.machine->hits[cell];
            state = p.machine->step[cell];
        }
        hits[p.rule] += p.machine->final[state];
    }
}

bool run(const Problem& problem, Engine engine, const Options& options, int threads, std::function<bool()> poll,
         const Outputs& out) {
    std::atomic<bool> stop{false};
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::atomic<bool> failed{false};
    const int64_t chunk = std::max<int64_t>(1, std::min<int64_t>(64, problem.B / (4 * std::max(1, threads))));
    const size_t n_rules = problem.rules.size();
    const auto work = [&](std::function<bool()> ask) {
        try {
            Control control(stop, std::move(ask), options.time_limit);
            Search search;
            for (;;) {
                const int64_t low = next.fetch_add(chunk), high = std::min(problem.B, low + chunk);
                if (low >= problem.B) return;
                for (int64_t b = low; b < high; ++b) {
                    control.check();
                    control.begin();
                    const Sequence s(problem, b);
                    const Answer answer = engine(s, options, control, search, out.counters + b * kCounters);
                    out.score[b] = answer.score;
                    out.bound[b] = answer.bound;
                    out.status[b] = static_cast<uint8_t>(answer.status);
                    if (!(answer.score > -kInf)) continue;
                    std::copy(answer.path.begin(), answer.path.end(), out.ids + s.begin);
                    violations(s, answer.path.data(), out.hits + b * n_rules);
                }
            }
        } catch (const Stopped&) {
        } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
            stop = true;
        }
    };
    std::mutex door;
    std::condition_variable done;
    int running = threads - 1;
    std::vector<std::thread> others;
    for (int k = 1; k < threads; ++k)
        others.emplace_back([&] {
            work({});
            const std::lock_guard lock(door);
            --running;
            done.notify_one();
        });
    work(poll);
    for (std::unique_lock lock(door); running > 0;)  // the last long sequences of others can still be stopped
        if (done.wait_for(lock, std::chrono::milliseconds(50)) == std::cv_status::timeout && poll && poll()) stop = true;
    for (std::thread& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
    return !stop;
}

std::vector<Answer> k_best(const Problem& problem, int64_t b, int k, const Options& options, std::function<bool()> poll) {
    std::atomic<bool> stop{false};
    Control control(stop, std::move(poll), options.time_limit);
    control.begin();
    Search search;
    search.small_fold = options.fold_states;
    return search.k_best(Sequence(problem, b), k, options.max_states, control);
}

}  // namespace bridle
