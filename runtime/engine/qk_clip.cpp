#include "runtime/engine/qk_clip.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/scale_heads.hpp"
#include "runtime/program/observation.hpp"

namespace millrace::runtime {

QkClip qk_clip(double threshold, const std::vector<Observation>& observations) {
  QkClip clip{threshold, {}};
  if (threshold == 0) return clip;
  for (const Observation& each : observations)
    if (each.name == score_maxima_name) clip.attentions.push_back({each.scope, each.values});
  return clip;
}

std::optional<double> largest_score(const std::vector<Observation>& observations) {
  std::optional<double> largest;
  for (const Observation& each : observations) {
    if (each.name != score_maxima_name) continue;
    for (const double score : each.values) largest = std::max(largest.value_or(score), score);
  }
  return largest;
}

std::vector<float> clip_factors(double threshold, const HeadScores& scores) {
  std::vector<float> factors;
  for (const double score : scores.maxima) {
    const auto limit = static_cast<float>(threshold), largest = static_cast<float>(score);
    // A head whose scores are all below 0 is left alone.
    factors.push_back(largest > 0 ? std::min(1.0F, limit / (largest + 1e-6F)) : 1.0F);
  }
  return factors;
}

void apply_qk_clip(const kernels::ExecutionContext& context, const QkClip& clip, const StageShard& shard) {
  if (clip.threshold == 0) return;
  for (const StoredParameter& tensor : shard.tensors()) {
    if (tensor.scores.scope.empty() || tensor.held().empty()) continue;
    MILLRACE_CHECK(tensor.held() == tensor.whole(), ExitCode::internal, "runtime.qk_clip", "{} is divided between replicas", tensor.name);
    const auto scores = std::ranges::find(clip.attentions, tensor.scores.scope, &HeadScores::scope);
    MILLRACE_CHECK(scores != clip.attentions.end() && static_cast<std::int64_t>(scores->maxima.size()) == tensor.scores.outputs.heads,
                   ExitCode::internal, "runtime.qk_clip", "{} of the attention in {} without the largest scores of its {} heads",
                   tensor.name, tensor.scores.scope, tensor.scores.outputs.heads);
    const std::vector<float> factors = clip_factors(clip.threshold, *scores);
    if (std::ranges::all_of(factors, [](float factor) { return factor == 1.0F; })) continue;
    kernels::scale_heads(context, tensor.scores.outputs, factors, shard.master(tensor));
    shard.refresh_copies(context, tensor);
  }
}

}  // namespace millrace::runtime
