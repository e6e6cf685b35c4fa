#pragma once

#include <vector>

#include "actors/jobs/parity.hpp"
#include "actors/messages/messages.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {

/// What the pipeline computed: the loss terms of all stages, and captured tensors "hidden.<i>/<microbatch>", "logits/<microbatch>",
/// "loss_sums.<term>.<value>/<microbatch>", "grad.<name>".
struct ParityOutput {
  std::vector<runtime::LossTermSums> losses;
  std::int64_t valid_targets = 0;
  std::vector<CapturedTensor> tensors;
};

/// Elements of a parameter, or of its gradient, in the order in which files keep the parameter.
[[nodiscard]] std::vector<float> as_stored(const layers::ParameterSpec& spec, std::vector<float> values);

/// Judges every tensor by the folder's parity_rule() and prints one line per group with its worst tensor, then the hash of
/// everything computed. Returns false if something exceeds its limit; this includes a tensor that golden has and the output
/// lacks, and for gradients also the reverse.
[[nodiscard]] bool report_parity(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden,
                                 ParityOutput output);

}  // namespace millrace::actors
