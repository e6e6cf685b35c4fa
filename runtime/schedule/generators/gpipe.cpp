// GPipe: all forwards, then all backwards, both with ascending microbatches. Huang et al., "GPipe: Efficient Training of Giant
// Neural Networks using Pipeline Parallelism", NeurIPS 2019, arXiv 1811.06965.
//
//     r0|F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====|
//     r1|.  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====.  .  |
//     r2|.  .  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====.  .  .  .  |
//     r3|.  .  .  F0 F1 F2 F3 F4 F5 F6 F7 B0====B1====B2====B3====B4====B5====B6====B7====.  .  .  .  .  .  |
//
// Bubble (P−1)(F+B), peak M microbatches on every rank, any M.

#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

Schedule gpipe(int ranks, int microbatches) {
  Schedule schedule{"gpipe", Placement::single(ranks), microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    auto& list = schedule.ranks.emplace_back();
    for (int m = 0; m < microbatches; ++m) list.push_back({StageId{rank}, ActionKind::forward, MicrobatchId{m}});
    for (int m = 0; m < microbatches; ++m) list.push_back({StageId{rank}, ActionKind::backward, MicrobatchId{m}});
  }
  return schedule;
}

const NamedSchedule& gpipe_schedule() {
  static constexpr NamedSchedule named{.name = "gpipe",
                                       .chunks = Chunks::one,
                                       .make = [](const ScheduleRequest& run) { return gpipe(run.ranks, run.microbatches); },
                                       .bubble = "(P-1)(F+B)",
                                       .peak = "M",
                                       .messages = "2(P-1)",
                                       .requirements = "any P and M",
                                       .use = "the simplest: for reference and evaluation. Memory grows with M"};
  return named;
}

}  // namespace millrace::runtime
