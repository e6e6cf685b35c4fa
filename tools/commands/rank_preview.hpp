#pragma once

#include <memory>
#include <string>

#include "actors/rank/rank_blueprint.hpp"

namespace millrace::tools {

/// One rank as the run would build it, with its memory planned but not allocated.
class RankPreview {
 public:
  RankPreview(const actors::PipelinePlan& plan, runtime::RankId rank, const actors::RankResources& needs);

  [[nodiscard]] runtime::RankId rank() const noexcept { return rank_; }
  [[nodiscard]] const runtime::Stage& stage(runtime::StageId stage) const { return compute_->stage(stage); }
  [[nodiscard]] const runtime::RankMemoryPlan& memory() const noexcept { return compute_->memory_plan(); }
  /// Weights that the rank holds: a tied table is held on both ranks that use it.
  [[nodiscard]] std::size_t parameters() const noexcept;
  /// The bytes of a stage's shard: parameters, copies, gradient sums, optimizer states, and the staging of a snapshot.
  [[nodiscard]] std::size_t shard_bytes(runtime::StageId stage) const noexcept;
  /// The arena, rings included: the peak, since the run allocates nothing else of size.
  [[nodiscard]] std::size_t peak_bytes() const noexcept { return memory().total_bytes(); }
  /// The sections of the arena as a table, with the peak below.
  [[nodiscard]] std::string print() const;

 private:
  runtime::RankId rank_;
  std::unique_ptr<runtime::RankCompute> compute_;
};

}  // namespace millrace::tools
