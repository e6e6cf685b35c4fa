// ZB-H2: split backward with twice the warm-up of 1F1B, so that no rank waits between its own first and last action. Qi, Wan,
// Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, arXiv 2401.10241, section 2.3.
//
//     r0|F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7 .  .  .  |
//     r1|.  F0 F1 F2 F3 F4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 I7 W5 W6 W7 .  .  |
//     r2|.  .  F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3 W4 W5 W6 W7 .  |
//     r3|.  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 W4 W5 W6 W7 |
//
// Span bubble (P−1)(F+I−2W), makespan bubble (P−1)F more; peak (2(P−r)−1)·M_B + 2r·M_W ≤ (2P−1)·M_B. Any M; with 2P−1 or more the
// pipeline is full.

#include <algorithm>

#include "runtime/schedule/generators/list_writer.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"

namespace millrace::runtime {

Schedule zb_h2(int ranks, int microbatches) {
  Schedule schedule = blank_schedule("zb-h2", Placement::single(ranks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ListWriter list(schedule, RankId{rank});
    const StageId stage{rank};
    const int ahead = std::min(2 * (ranks - 1 - rank) + 1, microbatches);
    for (int m = 0; m < ahead; ++m) list.forward(stage);
    for (int m = 0; m < microbatches; ++m) {
      list.input_gradient(stage);
      if (m >= 2 * rank) list.weight_gradient();
      list.forward(stage);
    }
    list.remaining_weight_gradients();
  }
  return schedule;
}

const NamedSchedule& zb_h2_schedule() {
  static constexpr NamedSchedule named{
      .name = "zb-h2",
      .chunks = Chunks::one,
      .make = [](const ScheduleRequest& run) { return zb_h2(run.ranks, run.microbatches); },
      .bubble = "(P-1)F and the span's (P-1)(F+I-2W)",
      .peak = "2P-1",
      .messages = "2(P-1)",
      .requirements = "any P and M; M >= 2P-1 fills it",
      .use = "no idle time inside a rank, for twice the memory; pays off if ranks need not end a step together"};
  return named;
}

}  // namespace millrace::runtime
