// How long work may go on, and how much memory it may take: a deadline for one sequence, a way to stop everything (Ctrl-C),
// and a number of bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <vector>

namespace bridle {

struct Stopped : std::exception {
    const char* what() const noexcept override { return "stopped"; }
};

// Shared by the threads that work on one batch.
struct Stop {
    std::atomic<bool> flag{false};
};

class Control {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max() / 4;

    // seconds: per sequence, negative: no limit. memory: bytes per sequence. poll: asked now and then whether to stop, may be null.
    Control(const Stop& stop, bool (*poll)(), double seconds, size_t memory = kUnlimited)
        : stop_(stop),
          poll_(poll),
          seconds_(seconds),
          memory_(memory),
          asked_(Clock::now()),
          deadline_(Clock::time_point::max()) {}

    void begin() { begin(seconds_); }  // a new sequence
    void begin(double left) {          // one for which so many seconds are left
        armed = false;
        if (seconds_ >= 0) {
            began_ = Clock::now();
            deadline_ = began_ + ticks(left);
        }
    }
    double spent() const {  // seconds on this sequence; 0 without a limit
        return seconds_ >= 0 ? std::chrono::duration<double>(Clock::now() - began_).count() : 0.0;
    }
    // Is the time up? ahead: or will it be, when something that takes so many seconds is done?
    bool late(double ahead = 0) const {
        return seconds_ >= 0 && deadline_ != Clock::time_point::max() && Clock::now() + ticks(ahead) >= deadline_;
    }
    // Does some work; false: the time was up before it was done.
    template <class Work>
    bool completes(const Work& work) {
        try {
            work();
            return true;
        } catch (const Late&) {  // the only place: everybody else sees a value
            return false;
        }
    }
    // Leaves the work that `completes` was asked to do.
    [[noreturn]] void give_up() { throw Late(); }
    // Gives up when the time is up; work that has nothing to show yet (not armed) is given a little longer. Throws Stopped.
    void check() {
        if (stop_.flag.load(std::memory_order_relaxed)) throw Stopped();
        if (late() && (armed || Clock::now() - deadline_ >= kGrace)) give_up();
        if (!poll_) return;
        const auto now = Clock::now();
        if (now - asked_ < std::chrono::milliseconds(50)) return;
        asked_ = now;
        if (poll_()) throw Stopped();
    }
    // For something that goes through memory: new pages take time, and old ones do when they are given back.
    void check(size_t bytes) {
        check();
        if (armed && late(kSecondsPerByte * double(bytes))) give_up();
    }
    static constexpr double kSecondsPerByte = 4e-10;

    size_t memory() const { return memory_; }

    bool armed = false;  // is there something to show if the time is up now?

  private:
    struct Late {};  // unwinds the stack to `completes`

    static constexpr std::chrono::milliseconds kGrace{15};
    static Clock::duration ticks(double seconds) {
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }

    const Stop& stop_;
    bool (*poll_)();
    double seconds_;
    size_t memory_;
    Clock::time_point asked_, began_, deadline_;
};

// Arms a control for as long as it lives.
class Armed {
  public:
    explicit Armed(Control& control) : control_(control), before_(control.armed) { control.armed = true; }
    ~Armed() { control_.armed = before_; }
    Armed(const Armed&) = delete;
    Armed& operator=(const Armed&) = delete;

  private:
    Control& control_;
    const bool before_;
};

// Makes `count` numbers of a vector, a few megabytes between two looks at the clock. What was in it is lost.
template <class T>
void lay_out(std::vector<T>& numbers, size_t count, T value, Control& control) {
    constexpr size_t kStep = (size_t{1} << 22) / sizeof(T);
    numbers.clear();
    if (count > kStep) control.check(count * sizeof(T));
    numbers.reserve(count);
    while (numbers.size() < count) {
        if (numbers.size() > 0) control.check();
        numbers.resize(std::min(count, numbers.size() + kStep), value);
    }
}

}  // namespace bridle
