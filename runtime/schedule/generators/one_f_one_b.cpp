// 1F1B: after a short warm-up every forward is followed by a backward, so that rank r holds only P−r microbatches. Narayanan et
// al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019 (the schedule with a flush: "Memory-Efficient
// Pipeline-Parallel DNN Training", arXiv 2006.09503).
//
//     r0|F0 F1 F2 F3 .  .  .  .  .  .  B0====F4 B1====F5 B2====F6 B3====F7 B4====.  B5====.  B6====.  B7====|
//     r1|.  F0 F1 F2 .  .  .  .  B0====F3 B1====F4 B2====F5 B3====F6 B4====F7 B5====.  B6====.  B7====.  .  |
//     r2|.  .  F0 F1 .  .  B0====F2 B1====F3 B2====F4 B3====F5 B4====F6 B5====F7 B6====.  B7====.  .  .  .  |
//     r3|.  .  .  F0 B0====F1 B1====F2 B2====F3 B3====F4 B4====F5 B5====F6 B6====F7 B7====.  .  .  .  .  .  |
//
// Bubble (P−1)(F+B), any M. With the smallest warm-up P−1−r a link latency c adds 2c(P−1)/P to the step for each microbatch. With a warm-up
// of 2(P−1−r) it adds nothing per microbatch up to c = (F+B)/2, only 2(P−1)c per step, for a peak of 2(P−1−r)+1 microbatches.

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {
namespace {

// A rank with a longer warm-up than the previous rank deadlocks: it waits for forwards that the previous rank runs only after a
// backward.
void check_warmup(const std::vector<int>& warmup, int ranks) {
  MILLRACE_CHECK(static_cast<int>(warmup.size()) == ranks, ExitCode::config, schedule_component,
                 "1f1b warm-up has {} values, expected one for each of {} ranks", warmup.size(), ranks);
  for (std::size_t rank = 0; rank < warmup.size(); ++rank) {
    MILLRACE_CHECK(warmup[rank] >= 0, ExitCode::config, schedule_component, "1f1b warm-up of rank {} is {}, expected 0 or more", rank,
                   warmup[rank]);
    MILLRACE_CHECK(rank == 0 || warmup[rank] <= warmup[rank - 1], ExitCode::config, schedule_component,
                   "1f1b warm-up of rank {} is {}, above {} of rank {}: they would wait for each other; nearest legal value {}", rank,
                   warmup[rank], warmup[rank - 1], rank - 1, warmup[rank - 1]);
  }
}

}  // namespace

std::vector<int> one_f_one_b_warmup(int ranks, int first_rank) {
  MILLRACE_CHECK(first_rank >= 0, ExitCode::config, schedule_component, "pipeline.warmup = {}, expected 0 or more", first_rank);
  if (ranks == 1) return {first_rank};
  std::vector<int> warmup;
  for (int rank = 0; rank < ranks; ++rank) warmup.push_back((first_rank * (ranks - 1 - rank) + ranks - 2) / (ranks - 1));  // rounded up
  return warmup;
}

Schedule one_f_one_b(int ranks, int microbatches, const std::optional<std::vector<int>>& warmup) {
  if (warmup) check_warmup(*warmup, ranks);
  Schedule schedule{"1f1b", Placement::single(ranks), microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    const int ahead = std::min(warmup ? (*warmup)[static_cast<std::size_t>(rank)] : ranks - 1 - rank, microbatches);
    auto& list = schedule.ranks.emplace_back();
    for (int m = 0; m < ahead; ++m) list.push_back({StageId{rank}, ActionKind::forward, MicrobatchId{m}});
    for (int m = 0; m < microbatches; ++m) {
      if (ahead + m < microbatches) list.push_back({StageId{rank}, ActionKind::forward, MicrobatchId{ahead + m}});
      list.push_back({StageId{rank}, ActionKind::backward, MicrobatchId{m}});
    }
  }
  return schedule;
}

const NamedSchedule& one_f_one_b_schedule() {
  static constexpr NamedSchedule named{
      .name = "1f1b",
      .chunks = Chunks::one,
      .takes_warmup = true,
      .make = [](const ScheduleRequest& run) { return one_f_one_b(run.ranks, run.microbatches, run.warmup); },
      .bubble = "(P-1)(F+B)",
      .peak = "P",
      .messages = "2(P-1)",
      .requirements = "any P and M; --warmup up to 2(P-1) hides link latency for up to 2P-1 microbatches",
      .use = "the default: least memory with a whole backward and one chunk per rank"};
  return named;
}

}  // namespace millrace::runtime
