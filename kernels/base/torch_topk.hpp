#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace::kernels {

struct ScoredPlace {
  float score;
  std::int32_t place;
};

/// Moves those `chosen` of `count` entries, which are in the order of their places, to the front that torch.topk returns on a CPU: the ones
/// with the largest scores, and of equal scores those that its algorithm meets first, which is a heap for few of many entries and
/// quickselect otherwise. PyTorch calls the functions of the C++ standard library, which leaves the choice among equal scores to their
/// implementation. So the same ones are called here, and the choice is PyTorch's as far as both are built with the same library: GNU's,
/// whose choice a test pins (tests/kernels/choose_keys_test.cpp). It is a function of the scores and their order alone. A NaN counts as the
/// largest. 1 <= chosen <= count.
inline void torch_topk(ScoredPlace* entries, std::int64_t count, std::int64_t chosen) {
  const auto is_better = [](const ScoredPlace& a, const ScoredPlace& b) {
    return (a.score != a.score && b.score == b.score) || a.score > b.score;
  };
  if (chosen * 64 <= count)
    std::partial_sort(entries, entries + chosen, entries + count, is_better);
  else
    std::nth_element(entries, entries + chosen - 1, entries + count, is_better);
}

}  // namespace millrace::kernels
