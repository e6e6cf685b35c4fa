// V-Min: the smallest memory that building blocks on a V placement allow, a third of 1F1B's. Qi, Wan, Amar, Lin, "Pipeline
// Parallelism with Controllable Memory", NeurIPS 2024, arXiv 2405.15362. Lower case is the second chunk.
//
//     r0|F0F1. . . . . f0i0F2w0. . f1i1I0w1F3W0f2i2I1w2F4W1f3i3I2w3F5W2f4i4I3w4F6W3f5i5I4w5F7W4f6i6I5w6W5. f7i7I6w7W6. . . I7W7|
//     r1|. F0. . . . f0F1. i0w0. f1F2I0i1W0w1f2F3I1i2W1w2f3F4I2i3W2w3f4F5I3i4W3w4f5F6I4i5W4w5f6F7I5i6W5w6f7. I6i7W6w7. . I7W7. |
//     r2|. . F0. . f0. . F1. i0f1w0I0F2W0i1f2w1I1F3W1i2f3w2I2F4W2i3f4w3I3F5W3i4f5w4I4F6W4i5f6w5I5F7W5i6f7w6I6W6. i7w7. I7W7. . |
//     r3|. . . F0f0. . . . F1f1i0I0w0W0F2f2i1I1w1W1F3f3i2I2w2W2F4f4i3I3w3W3F5f5i4I4w4W4F6f6i5I5w5W5F7f7i6I6w6W6. . i7I7w7W7. . |
//
// Bubble 0.6 to 0.75 of that of 1F1B for F = I = W, plus a term that grows with M where they differ; peak about P/3+1. Any M.

#include "runtime/schedule/generators/building_block.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"

namespace millrace::runtime {
namespace {

BuildingBlock v_min_block(int ranks, int rank) {
  const int delay = ranks % 3 == 0 ? 2 : 0;  // keeps the four apart mod 6
  return {rank, 2 * ranks - rank - 1, 2 * ranks + delay + rank, 4 * ranks + delay - rank - 1};
}

}  // namespace

Schedule v_min(int ranks, int microbatches) { return repeat_block("v-min", ranks, microbatches, v_min_block); }

const NamedSchedule& v_min_schedule() {
  static constexpr NamedSchedule named{.name = "v-min",
                                       .chunks = Chunks::two,
                                       .make = [](const ScheduleRequest& run) { return v_min(run.ranks, run.microbatches); },
                                       .bubble = "about 2/3 (P-1)(F+B), more where F, I, W differ",
                                       .peak = "P/3+1",
                                       .messages = "4(P-1)",
                                       .requirements = "V = 2",
                                       .use = "the least memory: a third of 1f1b's"};
  return named;
}

}  // namespace millrace::runtime
