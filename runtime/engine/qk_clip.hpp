#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "runtime/engine/observation_sums.hpp"
#include "runtime/engine/stage_shard.hpp"

namespace millrace::runtime {

/// The largest score of every head of one attention in a step: over all microbatches and replicas.
struct HeadScores {
  std::string scope;  // "layers.3"
  std::vector<double> maxima;
  auto tie() { return std::tie(scope, maxima); }
};

/// QK-clip (Kimi K2, arXiv 2507.20534, section 2.1): after the optimizer's update, and also after a step that was skipped, the weights from
/// which a head's queries and keys are computed are scaled down where its largest score M exceeded the threshold τ: with
/// γ = min(1, τ / (M + 1e-6)), queries and keys without position by √γ each, and rotated queries by γ, since all heads share the rotated
/// key. A maximum is exact in any order, so that the result does not depend on the layout.
struct QkClip {
  double threshold = 0;  // 0: nothing is scaled
  std::vector<HeadScores> attentions;
  auto tie() { return std::tie(threshold, attentions); }
};

/// The update after a step with these observations.
[[nodiscard]] QkClip qk_clip(double threshold, const std::vector<Observation>& observations);
/// The largest score of all heads; empty if none were observed.
[[nodiscard]] std::optional<double> largest_score(const std::vector<Observation>& observations);

/// γ of each head, in fp32.
[[nodiscard]] std::vector<float> clip_factors(double threshold, const HeadScores& scores);

/// Scales the matrices that lie in the shard (StoredParameter::scores), and refreshes their copies. Throws Error(internal) if the scores of
/// an attention are missing. Thread: the rank's compute worker.
void apply_qk_clip(const kernels::ExecutionContext& context, const QkClip& clip, const StageShard& shard);

}  // namespace millrace::runtime
