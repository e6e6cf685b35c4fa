// Looped breadth-first: stage s on rank s mod P; each chunk processes all microbatches before the next chunk starts.
// Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023, arXiv 2211.05953. Lower case is the second chunk.
//
//     r0|F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . . . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==|
//     r1|. F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . |
//     r2|. . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . . . |
//     r3|. . . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . . . . . |
//
// Bubble (P−1)(F+B)/V, peak M microbatches on every rank, any M. With V = 1 it equals gpipe.

#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

Schedule looped_bfs(int ranks, int chunks, int microbatches) {
  Schedule schedule{"looped-bfs", Placement::loop(ranks, chunks), microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    auto& list = schedule.ranks.emplace_back();
    for (int v = 0; v < chunks; ++v) {
      for (int m = 0; m < microbatches; ++m) list.push_back({StageId{rank + v * ranks}, ActionKind::forward, MicrobatchId{m}});
    }
    for (int v = chunks - 1; v >= 0; --v) {
      for (int m = 0; m < microbatches; ++m) list.push_back({StageId{rank + v * ranks}, ActionKind::backward, MicrobatchId{m}});
    }
  }
  return schedule;
}

const NamedSchedule& looped_bfs_schedule() {
  static constexpr NamedSchedule named{
      .name = "looped-bfs",
      .chunks = Chunks::any,
      .make = [](const ScheduleRequest& run) { return looped_bfs(run.ranks, run.chunks, run.microbatches); },
      .bubble = "(P-1)(F+B)/V",
      .peak = "M",
      .messages = "2(PV-1)",
      .requirements = "any P, V, M",
      .use = "several chunks and memory for all microbatches; every chunk's weights are used once forward, once backward"};
  return named;
}

}  // namespace millrace::runtime
