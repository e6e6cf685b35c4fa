#pragma once

#include <vector>

#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// Looks up the cost of a pair of an F and a B or I by its two stages.
class PairTable {
 public:
  PairTable(const std::vector<PairCost>& pairs, int stages);
  /// Index into the pairs; −1 if this pair has no cost of its own.
  [[nodiscard]] int find(const Action& first, const Action& second) const;

 private:
  const std::vector<PairCost>* pairs_;
  std::vector<std::vector<int>> of_forward_;  // by the forward's stage: indices of pairs
};

}  // namespace millrace::runtime
