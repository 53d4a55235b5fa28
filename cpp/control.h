// How long work may go on: a deadline for one sequence, and a way to stop everything (Ctrl-C).
#pragma once

#include <atomic>
#include <chrono>
#include <exception>

namespace bridle {

struct Stopped : std::exception {
    const char* what() const noexcept override { return "stopped"; }
};

struct Late : std::exception {
    const char* what() const noexcept override { return "out of time"; }
};

// Shared by the threads that work on one batch.
struct Stop {
    std::atomic<bool> flag{false};
};

class Control {
  public:
    using Clock = std::chrono::steady_clock;

    // seconds: per sequence, negative: no limit. poll: asked now and then whether to stop, may be null.
    Control(const Stop& stop, bool (*poll)(), double seconds)
        : stop_(stop), poll_(poll), seconds_(seconds), asked_(Clock::now()) {}

    void begin() { begin(seconds_); }  // a new sequence
    void begin(double left) {          // one for which so many seconds are left
        armed = false;
        if (seconds_ >= 0) {
            began_ = Clock::now();
            deadline_ = began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(left));
        }
    }
    double spent() const {  // seconds on this sequence; 0 without a limit
        return seconds_ >= 0 ? std::chrono::duration<double>(Clock::now() - began_).count() : 0.0;
    }
    bool late() const { return seconds_ >= 0 && Clock::now() >= deadline_; }
    void check() {  // throws Stopped, and Late when armed
        if (stop_.flag.load(std::memory_order_relaxed)) throw Stopped();
        if (armed && late()) throw Late();
        if (!poll_) return;
        const auto now = Clock::now();
        if (now - asked_ < std::chrono::milliseconds(50)) return;
        asked_ = now;
        if (poll_()) throw Stopped();
    }

    bool armed = false;  // is there something to show if the time is up now?

  private:
    const Stop& stop_;
    bool (*poll_)();
    double seconds_;
    Clock::time_point asked_, began_, deadline_;
};

}  // namespace bridle
