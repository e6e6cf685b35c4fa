#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/program/operations.hpp"

namespace millrace::runtime::testing {

/// A decoder of the usual form, written directly with operations: norm, grouped attention with rope, norm, SwiGLU, residuals,
/// head and loss.
struct SmallNet {
  kernels::DType compute = kernels::DType::f32;
  std::int64_t rows = 2, sequence = 4;
  std::int64_t width = 8, heads = 2, key_heads = 1, head_dim = 4, hidden = 12, vocabulary = 11;
  int first_layer = 0, end_layer = 2;  // the layers of this stage
  bool first = true, last = true;      // has the embedding, has the head
  float z_loss = 0.01F;
  bool sinks = false;   // attention has one sink per query head
  bool logits = false;  // ends in logits instead of the loss

  [[nodiscard]] std::int64_t tokens() const { return rows * sequence; }
};

[[nodiscard]] ForwardProgram build(const SmallNet& net);

/// The labels that it writes.
[[nodiscard]] const std::vector<std::string>& labels();

}  // namespace millrace::runtime::testing
