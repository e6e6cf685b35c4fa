// DualPipeV: DualPipe cut in half; one copy of the model on a V placement, whose two arms act as the two directions. Qi, Wan et
// al. (Sea AI Lab), "DualPipe Could Be Better Without the Dual", 2025, after DeepSeek-AI 2024, arXiv 2412.19437. Lower case is
// the second chunk.
//
//     r0|F0F1F2F3F4F5F6f0i0w0f1i1w1f2i2w2f3F7&b3=. . . f4&B0=b4==. f5&B1=b5==. f6&B2=b6==. f7&B3=b7==I4W4I5W5I6W6I7W7|
//     r1|. F0F1F2F3F4f0F5f1i0w0f2i1w1f3F6&b2=. . f4&B0=F7&b3=f5&B1=b4==. f6&B2=b5==. f7&B3=b6==B4==. i7I5w7I6W5I7W6W7|
//     r2|. . F0F1F2f0F3f1F4f2i0w0f3F5&b1=. f4&B0=F6&b2=f5&B1=F7&b3=f6&B2=b4==. f7&B3=b5==B4==. b6==I5. i7I6W5I7w7W6W7|
//     r3|. . . F0f0F1f1F2f2F3f3F4b0==f4&B0=F5&b1=f5&B1=F6&b2=f6&B2=F7&b3=f7&B3=b4==B4==. b5==B5==. i6I6. i7I7w6W6w7W7|
//
// Bubble (P−1)(F&B+B−3W)/2 with F&B the time of an overlapped pair, peak P+½. M ≥ 2P.

#include "kernels/base/check.hpp"
#include "runtime/schedule/generators/dualpipe_phases.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"

namespace millrace::runtime {

Schedule dualpipe_v(int ranks, int microbatches) {
  MILLRACE_CHECK(microbatches >= 2 * ranks, ExitCode::config, "runtime.schedule",
                 "dualpipe-v on {} ranks: train.microbatches = {}, expected {} or more; nearest legal: train.microbatches = {}", ranks,
                 microbatches, 2 * ranks, 2 * ranks);
  Schedule schedule = blank_schedule("dualpipe-v", Placement::v_shape(ranks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ListWriter list(schedule, RankId{rank});
    const auto& stages = schedule.placement.stages_of(RankId{rank});
    write_dualpipe_phases(list, {stages[0], stages[1], microbatches, rank, ranks});
  }
  return schedule;
}

const NamedSchedule& dualpipe_v_schedule() {
  static constexpr NamedSchedule named{.name = "dualpipe-v",
                                       .chunks = Chunks::two,
                                       .make = [](const ScheduleRequest& run) { return dualpipe_v(run.ranks, run.microbatches); },
                                       .bubble = "(P-1)(F&B+B-3W)/2",
                                       .peak = "P+1/2",
                                       .messages = "4(P-1)",
                                       .requirements = "V = 2; M >= 2P",
                                       .use = "DualPipe with one copy of the weights"};
  return named;
}

}  // namespace millrace::runtime
