// DualPipe: microbatches enter at both ends, through two copies of the model that run in opposite directions; in the steady state
// each forward is issued as one block with a backward of the other direction. Mirror placement. DeepSeek-AI, "DeepSeek-V3
// Technical Report", 2024, arXiv 2412.19437, section 3.2.1. Upper case is replica 0, lower case replica 1; the microbatches of
// each, 0, 2, 4, … and 1, 3, 5, …, are numbered from 0 here.
//
//     r0|F0 F1 F2 f0 i0 w0 f1 F3&b1====.  f2&B0====b2====.  f3&B1====b3====I2 W2 I3 W3 |
//     r1|.  F0 f0 F1 f1 F2 b0====f2&B0====F3&b1====f3&B1====b2====B2====.  i3 I3 w3 W3 |
//     r2|.  f0 F0 f1 F1 f2 B0====F2&b0====f3&B1====F3&b1====B2====b2====.  I3 i3 W3 w3 |
//     r3|f0 f1 f2 F0 I0 W0 F1 f3&B1====.  F2&b0====B2====.  F3&b1====B3====i2 w2 i3 w3 |
//
// Bubble (P/2−1)(F&B+B−3W) with F&B the time of an overlapped pair, peak P+1, parameters twice. P even, M even, M ≥ 2P.

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/generators/dualpipe_phases.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/nearest.hpp"

namespace millrace::runtime {

Schedule dualpipe(int ranks, int microbatches) {
  MILLRACE_CHECK(
      ranks % 2 == 0, ExitCode::config, "runtime.schedule",
      "dualpipe on {} ranks, expected an even number, since microbatches enter at both ends; nearest legal: pipeline.ranks = {}, or "
      "dualpipe-v, which accepts any number",
      ranks, nearest_legal(ranks, 2, [](int p) { return p % 2 == 0; }));
  MILLRACE_CHECK(
      microbatches % 2 == 0 && microbatches >= 2 * ranks, ExitCode::config, "runtime.schedule",
      "dualpipe on {} ranks: train.microbatches = {}, expected an even number of {} or more; nearest legal: train.microbatches = {}", ranks,
      microbatches, 2 * ranks, nearest_legal(microbatches, 2 * ranks, [](int m) { return m % 2 == 0; }));
  Schedule schedule = blank_schedule("dualpipe", Placement::mirror(ranks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ListWriter list(schedule, RankId{rank});
    StageId first = schedule.placement.stage_of(RankId{rank}, 0);
    StageId second = schedule.placement.stage_of(RankId{rank}, 1);
    if (rank >= ranks / 2) std::swap(first, second);
    write_dualpipe_phases(list, {first, second, microbatches / 2, std::min(rank, ranks - 1 - rank), ranks / 2});
  }
  return schedule;
}

const NamedSchedule& dualpipe_schedule() {
  static constexpr NamedSchedule named{
      .name = "dualpipe",
      .chunks = Chunks::one,
      .make = [](const ScheduleRequest& run) { return dualpipe(run.ranks, run.microbatches); },
      .bubble = "(P/2-1)(F&B+B-3W)",
      .peak = "P+1",
      .messages = "2(P-1), and gradients between the two copies",
      .requirements = "P even, M even, M >= 2P; two copies of the model",
      .use = "for a forward and a backward that overlap well, as with experts on other ranks; twice the weights"};
  return named;
}

}  // namespace millrace::runtime
