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
  runtime::StepCounts counts;
  std::vector<CapturedTensor> tensors;
};

/// Judges every tensor by the folder's parity_rule() and prints one line per group with its worst tensor, then the hash of
/// everything computed. Returns false if a tensor exceeds its limit, if a golden tensor was not computed, or if a gradient was
/// computed that has no golden tensor.
[[nodiscard]] bool report_parity(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden,
                                 ParityOutput output);

}  // namespace millrace::actors
