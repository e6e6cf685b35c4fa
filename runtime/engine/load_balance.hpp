#pragma once

#include <tuple>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "runtime/engine/expert_load.hpp"
#include "runtime/engine/stage_shard.hpp"

namespace millrace::runtime {

/// What a step asks of the biases by which routers choose their experts (Wang et al., arXiv 2408.15664): after the optimizer's update, the
/// bias of every expert that was chosen less often than the mean grows by `rate`, and that of every expert that was chosen more often
/// shrinks by it. The counts are those of the whole step, over all microbatches and replicas, of tokens with and without a loss, and of
/// choices that are dropped too. They are integers, so that the result does not depend on the layout. With MaxText's accumulation steps the
/// counts are those of one of them, and the bias moves by the sum over all.
struct BiasUpdate {
  double rate = 0;                // 0: no bias moves
  std::vector<ExpertLoad> loads;  // of the step's routers, those with such a bias among them; an entry for each accumulation step
  auto tie() { return std::tie(rate, loads); }
};

/// The update after a step with these observations, of all stages.
[[nodiscard]] BiasUpdate bias_update(double rate, const std::vector<ObservedSums>& observed, int model_stages,
                                     std::int64_t accumulation_steps);

/// rate · sign(mean − count) for each expert, in fp32: what is added to the biases. 0 for an expert that has the mean exactly.
[[nodiscard]] std::vector<float> bias_steps(double rate, const ExpertLoad& load);

/// Moves the biases that lie in the shard (StoredParameter::router), in fp32. After the optimizer, whose zeroed gradient sums it uses and
/// leaves zero. Throws Error(internal) if the load of a router is missing or has another number of experts. Thread: the rank's compute
/// worker.
void update_biases(const kernels::ExecutionContext& context, const BiasUpdate& update, const StageShard& shard);

}  // namespace millrace::runtime
