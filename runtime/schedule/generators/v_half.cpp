// V-Half: half the memory of 1F1B at half its bubble, on a V placement.
// Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, arXiv 2405.15362. Lower case is the second chunk.
//
//     r0|F0F1. . . . . f0F2i0w0f1F3i1w1f2F4. I0i2W0f3w2F5I1i3W1f4w3F6I2i4W2f5w4F7I3i5W3f6w5. I4i6W4f7w6I5i7W5w7I6W6. . I7W7|
//     r1|. F0F1. . . f0. . F2f1i0w0F3f2i1w1I0F4W0f3i2w2I1F5W1f4i3w3I2F6W2f5i4w4I3F7W3f6i5w5I4W4. f7i6I5w6W5i7I6w7W6. I7W7. |
//     r2|. . F0. . f0F1. . f1F2. i0f2w0F3I0i1W0f3w1F4I1i2W1f4w2F5I2i3W2f5w3F6I3i4W3f6w4F7I4i5W4f7w5I5i6W5w6I6i7W6w7I7W7. . |
//     r3|. . . F0f0. . F1f1. . F2f2i0I0w0F3W0f3i1I1w1F4W1f4i2I2w2F5W2f5i3I3w3F6W3f6i4I4w4F7W4f7i5I5w5W5i6I6w6W6i7I7w7W7. . |
//
// Bubble (P−1)(F+B)/2, peak P/2+1 for even P, (P+1)/2 for odd. Any M.

#include "runtime/schedule/generators/building_block.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"

namespace millrace::runtime {
namespace {

BuildingBlock v_half_block(int ranks, int rank) {
  const int delay = ranks % 2 == 0 ? 3 : 0;  // keeps the four apart mod 6
  return {2 * rank, 3 * ranks - rank - 2, 3 * ranks + delay + 2 * rank - 1, 6 * ranks + delay - rank - 2};
}

}  // namespace

Schedule v_half(int ranks, int microbatches) { return repeat_block("v-half", ranks, microbatches, v_half_block); }

const NamedSchedule& v_half_schedule() {
  static constexpr NamedSchedule named{.name = "v-half",
                                       .chunks = Chunks::two,
                                       .make = [](const ScheduleRequest& run) { return v_half(run.ranks, run.microbatches); },
                                       .bubble = "about (P-1)(F+B)/2",
                                       .peak = "P/2+1",
                                       .messages = "4(P-1)",
                                       .requirements = "V = 2",
                                       .use = "half of 1f1b's memory and half of its bubble"};
  return named;
}

}  // namespace millrace::runtime
