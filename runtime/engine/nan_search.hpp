#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/program/executor.hpp"

namespace millrace::runtime {

/// An operand or result with values that are NaN or infinite.
struct NotFinite {
  std::string name;          // of the value
  std::int64_t count = 0;    // number of such elements
  std::int64_t element = 0;  // index of the first one, in memory order
  double value = 0;
};

/// An operation whose results contain such values.
struct NanFinding {
  std::string operation;  // "layers.2.mlp.down_proj"
  int layer = -1;
  std::vector<NotFinite> results, operands;  // if no operand has them, the operation itself produced them

  /// "operation layers.2.mlp.down_proj (layer 2) left 32 values that are not finite in its result, the first nan at element 64; its operand
  /// model.layers.2.mlp.down_proj.weight has 1, the first nan at element 5"
  [[nodiscard]] std::string text() const;
};

/// To be called after an operation: returns nothing if all its floating-point results are finite. Accumulators count as results.
[[nodiscard]] std::optional<NanFinding> find_not_finite(const OperationHook::Call& call);

}  // namespace millrace::runtime
