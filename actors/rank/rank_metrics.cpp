#include "actors/rank/rank_metrics.hpp"

#include <sys/resource.h>

#include <cstdint>

namespace millrace::actors {
namespace {

std::uint64_t resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

void measure_step(const StepTimes& times, const SentBytes& sent, std::vector<double>& values) {
  values.assign(step_metrics.size(), 0.0);
  values[metric_index("bubble")] = static_cast<double>(times.bubble);
  values[metric_index("wait")] = static_cast<double>(times.wait);
  values[metric_index("exchange")] = static_cast<double>(times.exchange);
  values[metric_index("exchange_bytes")] = static_cast<double>(sent.exchanges);
  values[metric_index("reduction")] = static_cast<double>(times.reduction);
  values[metric_index("reduction_bytes")] = static_cast<double>(sent.replicas);
  values[metric_index("data")] = static_cast<double>(times.data);
  values[metric_index("resident_bytes")] = static_cast<double>(resident_bytes());
}

}  // namespace millrace::actors
