#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/pipeline_plan.hpp"
#include "runtime/engine/parameter_layout.hpp"
#include "runtime/engine/rank_memory.hpp"
#include "runtime/engine/stage.hpp"

namespace millrace::tools {

/// What a run would ask of a rank beyond its plan.
struct PreviewOptions {
  int threads = 1;
  bool staging = false;                      // checkpoints are written
  bool logits = false;                       // text is generated
  std::int64_t evaluation_microbatches = 0;  // of one evaluation
};

/// One rank as actors::Rank would build it, its memory planned but not asked for.
class RankPreview {
 public:
  RankPreview(const actors::PipelinePlan& plan, runtime::RankId rank, const PreviewOptions& options);

  [[nodiscard]] runtime::RankId rank() const noexcept { return rank_; }
  [[nodiscard]] const runtime::StageRunner& stage(runtime::StageId stage) const;
  [[nodiscard]] const runtime::ParameterPlaces& places() const noexcept { return places_; }
  [[nodiscard]] const runtime::RankMemoryPlan& memory() const noexcept { return *memory_; }
  /// Weights that the rank holds: a tied table is held on both ranks that use it.
  [[nodiscard]] std::size_t parameters() const noexcept;
  /// Arena and rings: the peak, since the run allocates nothing else of size.
  [[nodiscard]] std::size_t peak_bytes() const noexcept { return memory_->total_bytes() + ring_bytes_; }
  /// The arena's table with the rings below.
  [[nodiscard]] std::string print() const;

 private:
  struct Ring {
    cluster::ChannelSpec channel;
    std::size_t bytes = 0;
  };
  runtime::RankId rank_;
  std::unique_ptr<runtime::ParameterLayout> layout_;
  runtime::ParameterPlaces places_;
  std::vector<std::unique_ptr<runtime::StageRunner>> stages_;
  std::unique_ptr<runtime::RankMemoryPlan> memory_;
  std::vector<Ring> rings_;
  std::size_t ring_bytes_ = 0;
};

}  // namespace millrace::tools
