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

/// Output projection of h [T, width], and next-token loss in the same operation, summed over the valid targets: f64 [2] {loss sum, z-loss
/// sum}; or, if `want_logits`, fp32 logits [T, vocabulary] alone, for sampling and comparison. With form.z_loss > 0 each valid target
/// adds z_loss · log(Z)² (PaLM, arXiv 2204.02311, section 5).
[[nodiscard]] runtime::ValueId output_head(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table,
                                           const kernels::CrossEntropyOptions& form, bool want_logits);

}  // namespace millrace::layers
