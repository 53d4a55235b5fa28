// How long work may go on: a deadline for one sequence, and a way to stop everything (Ctrl-C).
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>

namespace bridle {

struct Stopped : std::exception {
    const char* what() const noexcept override { return "stopped"; }
};

class Control {
  public:
    using Clock = std::chrono::steady_clock;

    // `poll` is asked now and then by the thread that owns it whether to stop; other threads only see the flag.
    Control(std::atomic<bool>& stop, std::function<bool()> poll, double seconds)
        : stop_(stop), poll_(std::move(poll)), seconds_(seconds), asked_(Clock::now()) {}

    void begin() {  // a new sequence
        if (seconds_ >= 0)
            deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
    }
    bool late() const { return seconds_ >= 0 && Clock::now() >= deadline_; }
    void check() {  // throws Stopped
        if (poll_) {
            const auto now = Clock::now();
            if (now - asked_ > std::chrono::milliseconds(50)) {
                asked_ = now;
                if (poll_()) stop_ = true;
            }
        }
        if (stop_) throw Stopped();
    }

  private:
    std::atomic<bool>& stop_;
    std::function<bool()> poll_;
    double seconds_;  // negative: no limit
    Clock::time_point asked_, deadline_;
};

}  // namespace bridle
