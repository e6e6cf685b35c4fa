#pragma once

#include <vector>

#include "actors/jobs/parity.hpp"
#include "actors/messages/messages.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {

/// What is compared with the golden file: the loss terms of all stages, the counts that they are divided by, and the captured tensors,
/// which are named "hidden.<layer>/<microbatch>", "logits/<microbatch>", "loss_sums.<term>.<value>/<microbatch>" and "grad.<parameter>".
struct ParityOutput {
  std::vector<runtime::LossTermSums> losses;
  runtime::StepCounts counts;
  std::vector<CapturedTensor> tensors;
};

/// Compares hidden states, logits, loss and gradients of the golden file with the computed ones by parity_rule(). Prints one line per group
/// of tensors with the worst of them, then the loss, a hash of all computed tensors, and the verdict. Returns false if a tensor exceeds its
/// limit, if one that the golden file has was not computed, or if a gradient was computed that it does not have. A bf16 run of a folder
/// without bf16.json has no limits and therefore no verdict.
[[nodiscard]] bool report_parity(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden,
                                 ParityOutput output);

}  // namespace millrace::actors
