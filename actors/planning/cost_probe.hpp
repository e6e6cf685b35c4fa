#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/planning/cost_samples.hpp"
#include "actors/planning/model_parts.hpp"
#include "kernels/base/thread_team.hpp"
#include "runtime/engine/rank_compute.hpp"

namespace millrace::actors {

/// Times of one pass of one part.
struct PassTimes {
  std::size_t part = 0;
  runtime::Pass pass = runtime::Pass::forward;
  std::vector<CostSample> runs;
};

/// A rank that runs all parts of a model in turn, with several microbatches in flight: the inputs of a pass were written several
/// passes ago and have left the cache, as in a pipeline. It has one memory plan, and therefore one kind of backward.
class CostProbe {
 public:
  CostProbe(const ModelParts& parts, const actors::PlanRequest& request, runtime::BackwardMode mode, int threads,
            kernels::Device device = {});

  /// Runs every pass of every part `repeats` times for each microbatch in flight, after a warm-up; with train.leaf = microbatch a pass
  /// includes what it does for that.
  [[nodiscard]] std::vector<PassTimes> run(int repeats);
  /// Updates the weights of every part `repeats` times: the times of its norm and its optimizer, by part.
  [[nodiscard]] std::vector<std::vector<CostSample>> run_updates(int repeats);

 private:
  void fill_weights(const ModelParts& parts);
  void fill(const actors::PlanRequest& request);
  [[nodiscard]] runtime::ExecutionSlots slots_of(std::size_t part, int microbatch) const;
  template <class Work>
  CostSample sample(const Work& work);
  void read_processor_times(std::vector<std::int64_t>& times);

  runtime::BackwardMode mode_;
  kernels::ThreadTeam team_;
  std::unique_ptr<kernels::DeviceContext> device_context_;
  kernels::ExecutionContext context_;
  runtime::RankCompute rank_;
  std::vector<std::int64_t> before_, after_;  // by thread of the team, its processor time in nanoseconds
};

}  // namespace millrace::actors
