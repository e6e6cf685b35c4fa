#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "cluster/links/transport.hpp"

namespace millrace::cluster {

/// Computes from its construction to its destruction, as a rank's worker does in a step without pauses: products of 512 x 512
/// fp32 matrices on a team of `threads`, one pinned to each of `cores` if there are any.
class BusyTeam {
 public:
  /// `knows_workers`: the transport knows that this process's only worker computes, as in a run. If false, it knows of no worker.
  BusyTeam(Transport& transport, int threads, std::vector<int> cores, bool knows_workers);
  ~BusyTeam();
  BusyTeam(const BusyTeam&) = delete;
  BusyTeam& operator=(const BusyTeam&) = delete;

  /// Number of products finished so far. Any thread.
  [[nodiscard]] long products() const noexcept { return products_.load(std::memory_order_relaxed); }

 private:
  void compute(int threads, std::vector<int> cores);

  Transport& transport_;
  const bool knows_workers_;
  std::atomic<bool> stop_{false};
  std::atomic<long> products_{0};
  std::thread worker_;
};

}  // namespace millrace::cluster
