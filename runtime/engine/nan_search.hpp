#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/program/executor.hpp"

namespace millrace::runtime {

/// An operand or result with values that are NaN or infinite.
struct NotFinite {
  std::string name;          // the value's
  std::int64_t count = 0;    // of them
  std::int64_t element = 0;  // the first one's place, counted in memory
  double value = 0;
};

/// An operation that left such values behind.
struct NanFinding {
  std::string operation;  // "layers.2.mlp.down_proj"
  int layer = -1;
  std::vector<NotFinite> results, operands;  // no operand: the operation itself made them

  /// "operation layers.2.mlp.down_proj (layer 2) left 32 values that are not finite in its result, the first nan at element 64; its operand
  /// model.layers.2.mlp.down_proj.weight has 1, the first nan at element 5"
  [[nodiscard]] std::string text() const;
};

/// After an operation: nothing where all its floating-point results are finite. Accumulators count as results.
[[nodiscard]] std::optional<NanFinding> find_not_finite(const OperationHook::Call& call);

}  // namespace millrace::runtime
