#pragma once

#include <algorithm>
#include <cstring>

#include "benchmarks/kernels/timing.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/thread_team.hpp"

namespace millrace::benchmarks {

/// GB/s of a plain copy that reads and writes `bytes` in all, by the whole team: what an operation that moves as much can reach.
inline double copy_rate(kernels::ThreadTeam& team, double bytes) {
  const auto half = static_cast<std::int64_t>(bytes / 2);
  const kernels::Buffer from(static_cast<std::size_t>(half)), to(static_cast<std::size_t>(half));
  std::fill_n(from.data(), half, std::byte{1});
  const double seconds = seconds_of(
      [&] {
        team.for_ranges(half, 4096, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
        });
      },
      0.01, 20);
  return 2e-9 * static_cast<double>(half) / seconds;
}

}  // namespace millrace::benchmarks
