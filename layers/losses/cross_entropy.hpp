#pragma once

#include <cstdint>
#include <string>

#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// The output table of a head: `name` [vocabulary, width]; use 1 if it is the embedding's table.
struct HeadTable {
  std::string name;
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  int use = 0;
  bool stored_transposed = false;  // files have [width, vocabulary]
};

/// What an output head is computed from: the normed stream h [T, width].
struct HeadOperands {
  runtime::ValueId h;
  HeadTable table;
  kernels::CrossEntropyOptions form;
};

/// The table as a parameter [vocabulary, width].
[[nodiscard]] runtime::ValueId head_weight(runtime::ProgramBuilder& builder, const HeadTable& table);

/// Output projection of h, and the loss for targets i32 [T] in the same operation, summed over the valid ones: f64 [2] {loss
/// sum, z-loss sum}. With head.form.z_loss > 0 each valid target adds z_loss · log(Z)² (PaLM, arXiv 2204.02311, section 5).
[[nodiscard]] runtime::ValueId cross_entropy(runtime::ProgramBuilder& builder, const HeadOperands& head, runtime::ValueId targets);

/// fp32 logits [T, vocabulary], for sampling and comparison.
[[nodiscard]] runtime::ValueId output_logits(runtime::ProgramBuilder& builder, const HeadOperands& head);

}  // namespace millrace::layers
