#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/jobs/parity.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "runtime/engine/step_loss.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {

/// The results of one trained step; the members have the names of MaxText's scalars.
struct TrainedStep {
  runtime::StepLoss loss;    // z-loss included
  double z_loss = 0;         // the part of `loss` that is z-loss
  double raw_grad_norm = 0;  // before clipping
  double grad_norm = 0;      // after clipping
  double param_norm = 0;     // after the update
  double learning_rate = 0;
  std::int64_t targets = 0;
  bool skipped = false;
  double max_logits = 0;  // with QK-clip
};

/// The trained steps, and the parameters in the order of model files after some of the steps (keyed by the number of steps done).
struct TrainedSteps {
  std::vector<TrainedStep> steps;
  std::map<std::int64_t, std::map<std::string, std::vector<float>>> parameters;
};

/// The numbers n of the tensors after<n>.<parameter> in golden.safetensors.
[[nodiscard]] std::vector<std::int64_t> recorded_parameter_steps(const runtime::SafetensorsFile& golden);

/// Compares with golden.safetensors and prints a line for each scalar and each set of parameters, then the hash of everything computed.
/// Returns false if something exceeds its limit, or exists on one side only.
[[nodiscard]] bool report_recorded_steps(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden,
                                         const TrainedSteps& trained);

}  // namespace millrace::actors
