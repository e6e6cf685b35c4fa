#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

namespace millrace::kernels {

/// A fixed number of threads that run one function together. The caller is thread 0; the others spin briefly, then sleep on a
/// futex. `run` returns when all are done and rethrows the body's exception from the lowest thread; it does not allocate. One
/// caller at a time, always the same thread (the rank's worker). Every member thread keeps OpenMP to one thread, so that
/// libraries underneath do not start teams of their own.
class ThreadTeam {
 public:
  /// `threads` is at least 1. If `cores` is not empty, each core gets one thread, pinned to it; if there are fewer cores than
  /// threads, each member runs several of the team's threads in turn.
  explicit ThreadTeam(int threads, std::vector<int> cores = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const noexcept { return size_; }

  /// Calls body(thread_index, thread_count) on every thread.
  template <class Body>
  void run(Body&& body) {
    auto* pointer = std::addressof(body);
    run_erased([](void* p, int thread, int threads) { (*static_cast<std::remove_reference_t<Body>*>(p))(thread, threads); },
               const_cast<std::remove_const_t<std::remove_reference_t<Body>>*>(pointer));
  }

  /// Calls body(begin, end) over [0, count), cut into one contiguous range per thread at multiples of `grain`. The cut depends
  /// only on count, grain and the number of threads.
  template <class Body>
  void for_ranges(std::int64_t count, std::int64_t grain, Body&& body) {
    const std::int64_t blocks = (count + grain - 1) / grain;
    if (size_ == 1 || blocks <= 1) {
      if (count > 0) body(std::int64_t{0}, count);
      return;
    }
    run([&](int thread, int threads) {
      const std::int64_t begin = blocks * thread / threads * grain;
      const std::int64_t end = std::min(count, blocks * (thread + 1) / threads * grain);
      if (begin < end) body(begin, end);
    });
  }

 private:
  using Erased = void (*)(void*, int, int);
  void run_erased(Erased body, void* context);
  struct State;
  std::unique_ptr<State> state_;
  int size_;
};

}  // namespace millrace::kernels
