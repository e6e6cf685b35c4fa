#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/schedule/action.hpp"
#include "runtime/schedule/global_order.hpp"
#include "runtime/schedule/placement.hpp"
#include "runtime/schedule/schedule_config.hpp"

namespace millrace::runtime {

/// A schedule is data: for every rank, the ordered list of its actions in one step. Receives are implicit (an action waits for
/// its input) and sends never block, so the lists contain compute only.
struct Schedule {
  std::string name;
  Placement placement = Placement::single(1);
  int microbatches = 0;
  std::vector<std::vector<Action>> ranks;  // ranks[r] is the list of rank r

  /// True if no action is a backward: an evaluation step.
  [[nodiscard]] bool forward_only() const;

  /// How the replicas of the placement share the microbatches: of two, 0 takes 0, 2, 4, … and 1 takes 1, 3, 5, ….
  [[nodiscard]] GlobalOrder order() const { return GlobalOrder(placement.replicas()); }
  /// The microbatch that the stage processes as its `ordinal`-th, from 0.
  [[nodiscard]] MicrobatchId microbatch_of(StageId stage, int ordinal) const;
  [[nodiscard]] int ordinal_of(MicrobatchId microbatch) const { return static_cast<int>(order().ordinal(microbatch.value)); }
  [[nodiscard]] int microbatches_of(StageId stage) const;
  /// Whether this stage processes this microbatch; always true with one replica.
  [[nodiscard]] bool has(StageId stage, MicrobatchId microbatch) const;
  /// The microbatches of the rank's stages.
  [[nodiscard]] RankMicrobatches microbatches_of(RankId rank) const;
};

/// What `auto`'s search knows about one rank. Times are in any one unit, memory in any other.
struct RankCost {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double held = 1;         // memory of one microbatch from F to I (M_B)
  double held_weight = 1;  // memory of one microbatch from I to W (M_W)
  double limit = std::numeric_limits<double>::infinity();
};

/// Input of the search. If `ranks` is empty: unit costs, and for each rank the memory of P microbatches, which is what 1f1b
/// needs.
struct SearchInput {
  std::vector<RankCost> ranks;
  double latency = 0;  // from the end of an action to the arrival of its output on the neighbouring rank
};

/// The schedule that a run asks for.
struct ScheduleRequest {
  std::string name = "1f1b";               // pipeline.schedule
  int ranks = 1;                           // pipeline.ranks
  int chunks = 1;                          // pipeline.chunks
  int microbatches = 1;                    // train.microbatches
  std::optional<std::vector<int>> warmup;  // 1f1b only: forwards of each rank before it alternates forward and backward
  int group = 0;                           // pipeline.group, interleaved and interleaved-zb only: N; 0: chosen by the schedule
  SearchInput search = {};                 // auto only
};

/// The default number of chunks: 1 for schedules with one chunk per rank, 2 for all others. Error(config) for an unknown name.
[[nodiscard]] int usual_chunks(std::string_view name);

/// Generates the schedule of that name. The result is well formed and free of deadlock. Error(config) for an unknown name
/// (suggests the nearest known one) and for a combination that the schedule does not support (suggests the nearest legal one).
[[nodiscard]] Schedule make_schedule(const ScheduleRequest& request);

/// The placement of make_schedule(request), with the same errors.
[[nodiscard]] Placement placement_of(const ScheduleRequest& request);

// -- generators ---------------------------------------------------------------------------------------------------------------------------
// make_schedule() finds a schedule by its name (generators/schedules.inc lists them); those that code or tests also call directly are
// declared here. P ranks, V chunks, M microbatches; F, I, W, B = I + W are times of a whole rank; peaks are in microbatches of one.

/// All forwards, then all backwards (Huang et al. 2019). One chunk per rank. Peak: M microbatches.
[[nodiscard]] Schedule gpipe(int ranks, int microbatches);

/// One forward, one backward (Narayanan et al. 2019). One chunk per rank. `warmup[r]`, non-increasing in r, is the number of
/// forwards that rank r runs before it alternates forward and backward; the default is P−1−r, with peak P−r. Larger values hide link
/// latency at the cost of memory.
[[nodiscard]] Schedule one_f_one_b(int ranks, int microbatches, const std::optional<std::vector<int>>& warmup = std::nullopt);

/// The warm-up of every rank if rank 0 runs `first_rank` forwards ahead (pipeline.warmup): decreases linearly to 0 on the last
/// rank. P−1 gives P−1−r, 2(P−1) gives 2(P−1−r).
[[nodiscard]] std::vector<int> one_f_one_b_warmup(int ranks, int first_rank);

/// Breadth first over the chunks of a loop placement (Lamy-Poirier 2022). Peak: M microbatches.
[[nodiscard]] Schedule looped_bfs(int ranks, int chunks, int microbatches);

/// 1f1b over the chunks of a loop placement, in groups of N microbatches (Narayanan et al. 2021); group 0 means N = P. Requires P
/// ≤ N ≤ M and M mod N = 0 or ≥ P, unless V = 1. Peak (2(P−1)+(V−1)N+1)/V.
[[nodiscard]] Schedule interleaved(int ranks, int chunks, int microbatches, int group = 0);

/// MaxText's rolled loop, with the lists of looped_bfs. Requires M to be a multiple of P.
[[nodiscard]] Schedule circular(int ranks, int chunks, int microbatches);

/// Split backward with the memory of 1f1b (Qi et al. 2023). One chunk per rank.
[[nodiscard]] Schedule zb_h1(int ranks, int microbatches);

/// Split backward without a span bubble, with twice the memory (Qi et al. 2023). One chunk per rank. Peak 2P−1.
[[nodiscard]] Schedule zb_h2(int ranks, int microbatches);

/// interleaved with split backward (Qi et al. 2023; PyTorch). group 0 means N = M/rounds with rounds = max(1, M div P), which
/// must divide M.
[[nodiscard]] Schedule interleaved_zb(int ranks, int chunks, int microbatches, int group = 0);

/// No span bubble, with the memory of 1f1b (Qi et al. 2024). V placement, two chunks per rank.
[[nodiscard]] Schedule zb_v(int ranks, int microbatches);

/// Half the memory of 1f1b, half its bubble (Qi et al. 2024). V placement, two chunks per rank.
[[nodiscard]] Schedule v_half(int ranks, int microbatches);

/// A third of the memory of 1f1b (Qi et al. 2024). V placement, two chunks per rank.
[[nodiscard]] Schedule v_min(int ranks, int microbatches);

/// Microbatches enter at both ends of two copies of the model; forward and backward overlap (DeepSeek-AI 2024). Mirror placement.
/// Requires P even, M even, M ≥ 2P.
[[nodiscard]] Schedule dualpipe(int ranks, int microbatches);

/// DualPipe cut in half: one copy, V placement, two chunks per rank (Sea AI Lab 2025). Requires M ≥ 2P.
[[nodiscard]] Schedule dualpipe_v(int ranks, int microbatches);

/// Greedy search for given costs, latency and memory (Qi et al. 2023). One chunk per rank. Error(config) if `input` does not
/// match the ranks or a rank cannot hold one microbatch.
[[nodiscard]] Schedule auto_search(int ranks, int microbatches, const SearchInput& input = {});

/// Forwards only, for evaluation: any placement, any number of microbatches. Live with one slot per edge.
[[nodiscard]] Schedule forward_only(const Placement& placement, int microbatches);

}  // namespace millrace::runtime
