// Interleaved zero bubble: the order of interleaved 1F1B with a shorter warm-up and split backward. Qi, Wan, Huang, Lin, "Zero
// Bubble Pipeline Parallelism", ICLR 2024, arXiv 2401.10241, applied to the chunks of Narayanan et al. 2021; PyTorch calls it
// ScheduleInterleavedZeroBubble. Lower case is the second chunk.
//
//     r0|F0F1F2F3f0f1f2f3. . . i0w0F4i1w1F5i2w2F6i3w3F7I0W0f4I1W1f5I2W2f6I3W3f7i4w4i5w5i6w6i7w7I4W4I5W5I6W6I7W7|
//     r1|. F0F1F2F3f0f1f2. . i0f3i1w0F4i2w1F5i3w2F6I0w3F7I1W0f4I2W1f5I3W2f6i4W3f7i5w4i6w5i7w6I4w7I5W4I6W5I7W6W7|
//     r2|. . F0F1F2F3f0f1. i0f2i1f3i2w0F4i3w1F5I0w2F6I1w3F7I2W0f4I3W1f5i4W2f6i5W3f7i6w4i7w5I4w6I5w7I6W4I7W5W6W7|
//     r3|. . . F0F1F2F3f0i0f1i1f2i2f3i3w0F4I0w1F5I1w2F6I2w3F7I3W0f4i4W1f5i5W2f6i6W3f7i7w4I4w5I5w6I6w7I7W4W5W6W7|
//
// Bubble (P−1)(F+I−W)/V, peak (P−r+(V−1)N)/V.

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/generators/interleaving.hpp"
#include "runtime/schedule/generators/list_writer.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/nearest.hpp"

namespace millrace::runtime {
namespace {

// The largest number of equal rounds such that each has at least P microbatches; with fewer microbatches than ranks there is one
// round.
int microbatches_of_a_round(int ranks, int chunks, int microbatches) {
  const auto rounds = [ranks](int m) { return std::max(1, m / ranks); };
  const auto divides = [&](int m) { return m % rounds(m) == 0; };
  MILLRACE_CHECK(chunks == 1 || divides(microbatches), ExitCode::config, "runtime.schedule",
                 "interleaved-zb on {} ranks: train.microbatches = {} do not divide into {} equal rounds; nearest legal: "
                 "train.microbatches = {}",
                 ranks, microbatches, rounds(microbatches), nearest_legal(microbatches, 1, divides));
  return microbatches / rounds(microbatches);
}

}  // namespace

Schedule interleaved_zb(int ranks, int chunks, int microbatches, int group) {
  const int size = group > 0 ? checked_group("interleaved-zb", ranks, chunks, microbatches, group)
                             : microbatches_of_a_round(ranks, chunks, microbatches);
  const std::vector<int> order = interleaved_order(chunks, microbatches, size);
  Schedule schedule = blank_schedule("interleaved-zb", Placement::loop(ranks, chunks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ListWriter list(schedule, RankId{rank});
    std::size_t forwards = 0;
    const auto forward = [&] { list.forward(schedule.placement.stage_of(RankId{rank}, order[forwards++])); };
    const auto ahead = std::min(static_cast<std::size_t>(ranks - 1 - rank + (chunks - 1) * size), order.size());
    while (forwards < ahead) forward();
    for (std::size_t step = 0; step < order.size(); ++step) {
      if (forwards < order.size()) forward();
      list.input_gradient(schedule.placement.stage_of(RankId{rank}, chunks - 1 - order[step]));
      if (static_cast<int>(step) >= rank) list.weight_gradient();
    }
    list.remaining_weight_gradients();
  }
  return schedule;
}

const NamedSchedule& interleaved_zb_schedule() {
  static constexpr NamedSchedule named{
      .name = "interleaved-zb",
      .chunks = Chunks::any,
      .takes_groups = true,
      .make = [](const ScheduleRequest& run) { return interleaved_zb(run.ranks, run.chunks, run.microbatches, run.group); },
      .bubble = "(P-1)(F+I-W)/V",
      .peak = "(P+(V-1)N)/V",
      .messages = "2(PV-1)",
      .requirements = "max(1, M div P) divides M, or a legal N is given",
      .use = "interleaved with split backward, any V"};
  return named;
}

}  // namespace millrace::runtime
