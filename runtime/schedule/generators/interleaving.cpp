#include "runtime/schedule/generators/interleaving.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/nearest.hpp"

namespace millrace::runtime {
namespace {

bool legal(int ranks, int microbatches, int group) {
  if (group < ranks || group > microbatches) return false;
  return microbatches % group == 0 || microbatches % group >= ranks;
}

}  // namespace

int checked_group(const char* name, int ranks, int chunks, int microbatches, int group) {
  if (chunks == 1 || legal(ranks, microbatches, group)) return group;
  const int group_size = std::max(group, ranks);
  const int other = nearest_legal(microbatches, group_size, [&](int m) { return legal(ranks, m, group_size); });
  std::string advice = fmt::format("train.microbatches = {} with pipeline.group = {}", other, group_size);
  if (microbatches >= ranks) {
    const int near = nearest_legal(group, ranks, [&](int n) { return legal(ranks, microbatches, n); });
    advice = fmt::format("pipeline.group = {}, or {}", near, advice);
  }
  fail(ExitCode::config, "runtime.schedule",
       "{} of {} chunks on {} ranks: train.microbatches = {} with pipeline.group = {}, expected groups of {} (the ranks) to "
       "train.microbatches "
       "and a last group that is full or not smaller than {}; nearest legal: {}",
       name, chunks, ranks, microbatches, group, ranks, ranks, advice);
}

std::vector<int> interleaved_order(int chunks, int microbatches, int group) {
  std::vector<int> order;
  for (int first = 0; first < microbatches; first += group) {
    const int size = std::min(group, microbatches - first);
    for (int chunk = 0; chunk < chunks; ++chunk) order.insert(order.end(), static_cast<std::size_t>(size), chunk);
  }
  return order;
}

}  // namespace millrace::runtime
