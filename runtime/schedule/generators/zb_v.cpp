// ZB-V: zero bubble on a V placement; rank r has stages r and 2P−1−r, so embedding and head share rank 0. Qi, Wan, Amar, Lin,
// "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, arXiv 2405.15362. Lower case is the second chunk.
//
//     r0|F0F1F2F3F4F5F6f0i0w0f1i1w1f2i2w2f3i3w3F7I0W0f4i4w4I1W1f5i5w5I2W2f6i6w6I3W3f7i7w7I4W4I5W5I6W6I7W7. . . |
//     r1|. F0F1F2F3F4f0F5f1i0w0f2i1w1f3i2w2F6I0W0f4i3w3F7I1W1f5i4w4I2W2f6i5w5I3W3f7i6w6I4i7I5W4I6W5I7W6w7W7. . |
//     r2|. . F0F1F2f0F3f1F4f2i0w0f3i1w1F5I0W0f4i2w2F6I1W1f5i3w3F7I2W2f6i4w4I3W3f7i5w5I4i6I5i7I6W4I7W5w6w7W6W7. |
//     r3|. . . F0f0F1f1F2f2F3f3i0w0F4I0W0f4i1w1F5I1W1f5i2w2F6I2W2f6i3w3F7I3W3f7i4w4I4i5I5i6I6i7I7W4w5w6w7W5W6W7|
//
// Span bubble 0 for F = I = W, makespan bubble about (P−1)(F+I−W)/2, peak P on all ranks. Any M; with 2P−1 or more the pipeline
// is full. For fewer, the lists for 2P−1 microbatches are generated and the surplus is removed.

#include <algorithm>

#include "runtime/schedule/generators/list_writer.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"

namespace millrace::runtime {

Schedule zb_v(int ranks, int microbatches) {
  const int made = std::max(2 * ranks - 1, microbatches);
  Schedule schedule = blank_schedule("zb-v", Placement::v_shape(ranks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ListWriter list(schedule, RankId{rank});
    const StageId down = schedule.placement.stage_of(RankId{rank}, 0);  // on the way to the bend
    const StageId up = schedule.placement.stage_of(RankId{rank}, 1);    // on the way back
    const auto split_backward = [&list](StageId stage) {
      list.input_gradient(stage);
      list.weight_gradient(stage);
    };
    for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) list.forward(down);
    for (int i = 0; i < rank; ++i) {
      list.forward(up);
      list.forward(down);
    }
    for (int i = 0; i < ranks - rank; ++i) {
      list.forward(up);
      split_backward(up);
    }
    for (int i = 0; i < made - ranks; ++i) {
      list.forward(down);
      split_backward(down);
      list.forward(up);
      split_backward(up);
    }
    for (int i = 0; i < rank; ++i) {
      list.input_gradient(down);
      list.input_gradient(up);
    }
    for (int i = 0; i < ranks - rank; ++i) split_backward(down);
    list.remaining_weight_gradients(up);
    list.remaining_weight_gradients(down);
  }
  return schedule;
}

const NamedSchedule& zb_v_schedule() {
  static constexpr NamedSchedule named{.name = "zb-v",
                                       .chunks = Chunks::two,
                                       .make = [](const ScheduleRequest& run) { return zb_v(run.ranks, run.microbatches); },
                                       .bubble = "about (P-1)(F+I-W)/2, of the span 0",
                                       .peak = "P",
                                       .messages = "4(P-1)",
                                       .requirements = "V = 2; M >= 2P-1 fills it",
                                       .use = "the smallest bubble at 1f1b's memory; embedding and head share rank 0"};
  return named;
}

}  // namespace millrace::runtime
