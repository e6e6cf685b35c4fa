#include "kernels/bandwidth.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/base/buffer.hpp"
#include "kernels/base/thread_team.hpp"

namespace millrace::kernels {

double measured_copy_bandwidth(int threads) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t bytes = 32 << 20;
  constexpr std::int64_t page = 4096;
  Buffer from(bytes), to(bytes);
  ThreadTeam team(threads);
  const auto copy = [&] {
    team.for_ranges(bytes, page, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
    });
  };
  std::memset(from.data(), 1, bytes);  // the system maps all pages that were never written to the same one
  copy();
  double best = 1;
  for (const auto end = Clock::now() + std::chrono::milliseconds(60); Clock::now() < end;) {
    const auto begin = Clock::now();
    copy();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 2.0 * static_cast<double>(bytes) / best;
}

}  // namespace millrace::kernels
