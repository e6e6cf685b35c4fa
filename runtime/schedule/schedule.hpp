#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/schedule/action.hpp"
#include "runtime/schedule/placement.hpp"

namespace millrace::runtime {

/// A schedule is data: for every rank the ordered list of what it does in one step.
/// Receives are implicit (an action waits for its token) and sends never block, so the lists hold compute only.
struct Schedule {
  std::string name;
  Placement placement = Placement::single(1);
  int microbatches = 0;
  std::vector<std::vector<Action>> ranks;  // ranks[r] is the list of rank r

  /// True where no action is a backward: an evaluation step.
  [[nodiscard]] bool forward_only() const;
};

/// What a run asks for.
struct ScheduleRequest {
  std::string name = "1f1b";               // pipeline.schedule
  int ranks = 1;                           // pipeline.ranks
  int chunks = 1;                          // pipeline.chunks
  int microbatches = 1;                    // train.microbatches
  std::optional<std::vector<int>> warmup;  // 1f1b only: forwards of each rank before its first backward
};

/// Names that make_schedule knows, in the order of the documentation.
[[nodiscard]] const std::vector<std::string>& schedule_names();

/// The schedule of that name. Error(config) for an unknown name (tells the nearest known one) and for a combination the
/// schedule cannot do (tells the nearest legal one). The result is well formed and free of deadlock.
[[nodiscard]] Schedule make_schedule(const ScheduleRequest& request);

/// The placement that make_schedule(request) would use; the same errors, without making the lists.
[[nodiscard]] Placement placement_of(const ScheduleRequest& request);

// -- the generators, one file each -----------------------------------------------------------------------------------

/// All forwards, then all backwards (Huang et al. 2019). One chunk a rank. Peak: M microbatches.
[[nodiscard]] Schedule gpipe(int ranks, int microbatches);

/// One forward, one backward (Narayanan et al. 2019). One chunk a rank. `warmup[r]`, not rising with r, is the number of forwards that
/// rank r runs ahead of its first backward; without it P−1−r, peak P−r. Larger values hide link latency for memory.
[[nodiscard]] Schedule one_f_one_b(int ranks, int microbatches, const std::optional<std::vector<int>>& warmup = std::nullopt);

/// Warm-up of every rank when rank 0 runs `first_rank` forwards ahead (pipeline.warmup): falls evenly to the last rank's 0.
/// P−1 gives P−1−r, 2(P−1) gives 2(P−1−r).
[[nodiscard]] std::vector<int> one_f_one_b_warmup(int ranks, int first_rank);

/// Breadth first over the chunks of a loop placement (Lamy-Poirier 2022). Peak: M microbatches.
[[nodiscard]] Schedule looped_bfs(int ranks, int chunks, int microbatches);

/// Split backward at the memory of 1f1b (Qi et al. 2023). One chunk a rank.
[[nodiscard]] Schedule zb_h1(int ranks, int microbatches);

/// Forwards alone, for evaluation: any placement, any number of microbatches. Live with one slot on every edge.
[[nodiscard]] Schedule forward_only(const Placement& placement, int microbatches);

}  // namespace millrace::runtime
