// One idea: a schedule is data. It can be generated, drawn and simulated, and its memory computed, before anything runs.
//
//     draw_a_schedule [RANKS [MICROBATCHES]]

#include <fmt/format.h>

#include <cstdlib>

#include "kernels/base/check.hpp"
#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/simulator/render.hpp"
#include "runtime/schedule/simulator/replay.hpp"

using namespace millrace;

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  const int microbatches = argc > 2 ? std::atoi(argv[2]) : 8;
  try {
    for (const auto& name : runtime::schedule_names()) {
      runtime::ScheduleRequest request{name, ranks, runtime::usual_chunks(name), microbatches, std::nullopt};
      runtime::Schedule schedule;
      try {
        schedule = runtime::make_schedule(request);
      } catch (const Error& error) {  // a schedule may not support every size; the message names the nearest one that it does
        fmt::print("{}\n\n", error.what());
        continue;
      }
      // A forward takes 1, and so do the input gradient and the weight gradient: a whole backward takes 2.
      const auto costs = runtime::uniform_costs(schedule.placement, 1, 1, 1);
      const auto timeline = runtime::replay(schedule, costs, 0);
      double busy = 0;
      for (const double rank : timeline.busy) busy += rank;
      const double bubble = 1 - busy / (timeline.makespan * ranks);
      fmt::print("{}: idle {:.1f} %, at most {:.1f} microbatches held by a rank\n{}\n", name, 100 * bubble, timeline.worst_peak(),
                 runtime::render(timeline, schedule.placement, 1.0 / schedule.placement.chunks()));
      const auto ledger = runtime::make_ledger(schedule);
      for (std::size_t stage = 0; stage < ledger.stages.size(); ++stage) {
        const auto& slots = ledger.stages[stage];
        fmt::print("  stage {}: {} slots from F to I or B, {} from F to W, {} from I to W\n", stage, slots.stash_input, slots.stash_weight,
                   slots.handoff);
      }
      fmt::print("\n");
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
