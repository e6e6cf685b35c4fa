// Circular: the pipeline of MaxText, one loop in which all ranks step together; rank r at iteration t works on step t − r, whose
// repeat (chunk) is (t − r) div M and whose microbatch is (t − r) mod M. google/AI-Hypercomputer MaxText, layers/pipeline.py
// (2024), after Xu et al., "GSPMD: General and Scalable Parallelization for ML Computation Graphs", 2021, arXiv 2105.04663,
// section 3.3. Forwards:
//
//     r0|F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . |
//     r1|. F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . |
//     r2|. . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. |
//     r3|. . . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7|
//
// The backward comes after all forwards, chunks from last to first. In MaxText, autodiff of the loop also reverses the order of
// the microbatches; here they ascend as in every schedule, so that one FIFO per edge suffices. The times are the same, and the
// lists are those of looped_bfs. Bubble (P−1)(F+B)/V, peak M (with full rematerialisation: of inputs only). M must be a multiple
// of P; 2P is advised.

#include "kernels/base/check.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/nearest.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

Schedule circular(int ranks, int chunks, int microbatches) {
  MILLRACE_CHECK(microbatches % ranks == 0, ExitCode::config, "runtime.schedule",
                 "circular on {} ranks: train.microbatches = {}, expected a multiple of {}; nearest legal: train.microbatches = {}", ranks,
                 microbatches, ranks, nearest_legal(microbatches, ranks, [ranks](int m) { return m % ranks == 0; }));
  Schedule schedule = looped_bfs(ranks, chunks, microbatches);
  schedule.name = "circular";
  return schedule;
}

const NamedSchedule& circular_schedule() {
  static constexpr NamedSchedule named{.name = "circular",
                                       .chunks = Chunks::any,
                                       .make = [](const ScheduleRequest& run) { return circular(run.ranks, run.chunks, run.microbatches); },
                                       .bubble = "(P-1)(F+B)/V",
                                       .peak = "M",
                                       .messages = "2(PV-1)",
                                       .requirements = "M a multiple of P",
                                       .use = "looped-bfs, as in MaxText's rolled loop"};
  return named;
}

}  // namespace millrace::runtime
