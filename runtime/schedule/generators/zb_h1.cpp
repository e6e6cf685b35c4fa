// ZB-H1: the backward is split; weight gradients, for which no other rank waits, fill the bubbles, with the memory of 1F1B. Qi,
// Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, arXiv 2401.10241, section 2.2.
//
//     r0|F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7 |
//     r1|.  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7 |
//     r2|.  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7 |
//     r3|.  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7 |
//
// Bubble (P−1)(F+I−W), peak (P−r)·M_B + r·M_W on rank r, any M.

#include <algorithm>

#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

Schedule zb_h1(int ranks, int microbatches) {
  Schedule schedule{"zb-h1", Placement::single(ranks), microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    auto& list = schedule.ranks.emplace_back();
    const auto emit = [&list, stage = StageId{rank}](ActionKind kind, int m) { list.push_back({stage, kind, MicrobatchId{m}}); };
    int forwards = 0;
    int weights = 0;
    while (forwards < std::min(ranks - 1 - rank, microbatches)) emit(ActionKind::forward, forwards++);
    for (int m = 0; m < microbatches; ++m) {
      if (forwards < microbatches) emit(ActionKind::forward, forwards++);
      emit(ActionKind::input_gradient, m);
      if (m >= rank) emit(ActionKind::weight_gradient, weights++);
    }
    while (weights < microbatches) emit(ActionKind::weight_gradient, weights++);
  }
  return schedule;
}

const NamedSchedule& zb_h1_schedule() {
  static constexpr NamedSchedule named{.name = "zb-h1",
                                       .chunks = Chunks::one,
                                       .make = [](const ScheduleRequest& run) { return zb_h1(run.ranks, run.microbatches); },
                                       .bubble = "(P-1)(F+I-W)",
                                       .peak = "P",
                                       .messages = "2(P-1)",
                                       .requirements = "any P and M",
                                       .use = "1f1b's memory and messages, about a third of its bubble: split backward"};
  return named;
}

}  // namespace millrace::runtime
