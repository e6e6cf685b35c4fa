// Interleaved 1F1B: 1F1B over the chunks of a loop placement, microbatches in groups of N (here N = P), each group through all
// chunks of a rank before the next. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021, arXiv 2104.04473, section 2.2. Lower case is the second chunk.
//
//     r0|F0F1F2F3f0f1f2f3F4F5F6. . . b0==F7b1==. f4b2==f5b3==f6B0==f7B1==B2==. B3==. b4==. b5==. b6==. b7==B4==B5==B6==B7==|
//     r1|. F0F1F2F3f0f1f2f3F4. . b0==F5b1==F6b2==F7b3==f4B0==f5B1==f6B2==f7B3==. b4==. b5==. b6==. b7==B4==B5==B6==B7==. . |
//     r2|. . F0F1F2F3f0f1f2. b0==f3b1==F4b2==F5b3==F6B0==F7B1==f4B2==f5B3==f6b4==f7b5==. b6==. b7==B4==B5==B6==B7==. . . . |
//     r3|. . . F0F1F2F3f0b0==f1b1==f2b2==f3b3==F4B0==F5B1==F6B2==F7B3==f4b4==f5b5==f6b6==f7b7==B4==B5==B6==B7==. . . . . . |
//
// Bubble (P−1)(F+B)/V, peak (2(P−1−r)+(V−1)N+1)/V. The factor 2 of the warm-up hides latency; larger groups hide more of the
// latency from the last rank back to the first, at the cost of memory.

#include <algorithm>

#include "runtime/schedule/generators/interleaving.hpp"
#include "runtime/schedule/generators/list_writer.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"

namespace millrace::runtime {

Schedule interleaved(int ranks, int chunks, int microbatches, int group) {
  const int size = checked_group("interleaved", ranks, chunks, microbatches, group > 0 ? group : ranks);
  const std::vector<int> order = interleaved_order(chunks, microbatches, size);
  Schedule schedule = blank_schedule("interleaved", Placement::loop(ranks, chunks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ListWriter list(schedule, RankId{rank});
    const auto forward = [&](std::size_t step) { list.forward(schedule.placement.stage_of(RankId{rank}, order[step])); };
    const auto backward = [&](std::size_t step) { list.backward(schedule.placement.stage_of(RankId{rank}, chunks - 1 - order[step])); };
    const auto ahead = std::min(static_cast<std::size_t>(2 * (ranks - 1 - rank) + (chunks - 1) * size), order.size());
    for (std::size_t step = 0; step < ahead; ++step) forward(step);
    for (std::size_t step = 0; step < order.size(); ++step) {
      if (ahead + step < order.size()) forward(ahead + step);
      backward(step);
    }
  }
  return schedule;
}

const NamedSchedule& interleaved_schedule() {
  static constexpr NamedSchedule named{
      .name = "interleaved",
      .chunks = Chunks::any,
      .takes_groups = true,
      .make = [](const ScheduleRequest& run) { return interleaved(run.ranks, run.chunks, run.microbatches, run.group); },
      .bubble = "(P-1)(F+B)/V",
      .peak = "(2(P-1)+(V-1)N+1)/V",
      .messages = "2(PV-1)",
      .requirements = "P <= N <= M; M mod N = 0 or >= P",
      .use = "a small bubble with a whole backward, for V times the messages; hides link latency"};
  return named;
}

}  // namespace millrace::runtime
