#pragma once

#include <vector>

#include "actors/messages.hpp"
#include "actors/parity.hpp"
#include "actors/pipeline_plan.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {

/// What the pipeline computed: loss sums by microbatch, and captured tensors "hidden.<i>/<microbatch>", "logits/<microbatch>",
/// "loss_sums/<microbatch>", "grad.<name>".
struct ParityOutput {
  std::vector<double> losses;
  std::int64_t valid_targets = 0;
  std::vector<CapturedTensor> tensors;
};

/// Prints one line a group with its largest difference, its tolerance and the tensor where it is, then the hash of everything computed.
/// Returns whether all is within tolerance; a tensor that golden has and the output lacks, or the reverse for gradients, is not.
[[nodiscard]] bool report_parity(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden,
                                 ParityOutput output);

}  // namespace millrace::actors
