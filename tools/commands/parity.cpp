#include "actors/jobs/parity.hpp"

#include <algorithm>

#include "kernels/base/count.hpp"
#include "kernels/base/device.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/found_checkpoint.hpp"

namespace millrace::tools {

namespace {

int parity(const Arguments& parsed) {
  actors::Session session;
  actors::ParitySettings settings;
  session.prepare_together([&] {
    MILLRACE_CHECK(parsed.positional().size() == 1, ExitCode::usage, "millrace parity",
                   "{} given, expected one with config.json, model.safetensors, golden.safetensors",
                   counted(parsed.positional().size(), "folder"));
    settings.folder = parsed.positional().front();
    want_no_run(settings.folder, "millrace parity");
    settings.dtype = parsed.text("dtype");
    settings.device = parsed.text("device");
    static_cast<void>(kernels::parse_device(settings.device));
    settings.expert = parsed.integer("expert", 1, 4096);
    settings.accumulators = parsed.integer("accumulators", 0, 1 << 20);
    settings.ranks =
        static_cast<int>(parsed.integer("ranks", std::max<std::int64_t>(session.launch().processes / settings.expert, 1), 1, 4096));
    settings.chunks = static_cast<int>(parsed.integer("chunks", 1, 4096));
    settings.schedule = parsed.text("schedule", settings.chunks > 1 ? "looped-bfs" : "1f1b");
    settings.layout = parsed.text("layout");
    settings.rematerialize = parsed.text("rematerialize");
    settings.tolerance = parsed.real("tolerance");
    settings.threads = static_cast<int>(parsed.integer("threads", 1, 4096));
  });
  session.connect(settings.ranks * static_cast<int>(settings.expert), settings.cluster);
  bool within = false;
  session.carry_out([&] { within = actors::run_parity(session, settings); });
  return within ? 0 : static_cast<int>(ExitCode::difference);
}

}  // namespace

Command parity_command() {
  return {.name = "parity",
          .words = "DIR",
          .summary = "Compare a converted model with reference outputs, gradients included. Alone or under mpirun.",
          .notes =
              "DIR has config.json, model.safetensors and golden.safetensors. Ends with 1 beyond tolerance. Prints a hash that is the "
              "same for every layout.",
          .options = {{.name = "dtype", .value = "TYPE", .help = "Compute dtype.", .fallback = "fp32", .choices = {"fp32", "bf16"}},
                      {.name = "device", .value = "DEVICE", .help = "cpu, cuda or cuda:N.", .fallback = "cpu"},
                      {.name = "ranks", .value = "P", .help = "Ranks of the pipeline. Default: one per process, of X processes each."},
                      {.name = "chunks", .value = "V", .help = "Stages per rank.", .fallback = "1"},
                      {.name = "schedule",
                       .value = "NAME",
                       .help = "Default: 1f1b, or looped-bfs with several stages per rank.",
                       .offer = offer_schedules},
                      {.name = "expert", .value = "X", .help = "Ranks that share the experts of a layer.", .fallback = "1"},
                      {.name = "accumulators",
                       .value = "A",
                       .help = "Gradient sums of a step, a multiple of X. The hash depends on it. 0: as many as X.",
                       .fallback = "0"},
                      {.name = "layout", .value = "LAYOUT", .help = "Layers of each stage, such as \"E t*2 | t H\"."},
                      {.name = "rematerialize", .value = "POLICY", .help = "The same as rematerialize.policy.", .fallback = "none"},
                      {.name = "tolerance", .value = "X", .help = "Factor on the tolerances of the folder.", .fallback = "1"},
                      {.name = "threads", .value = "T", .help = "Threads per rank.", .fallback = "1"}},
          .offer = offer_folders,
          .run = parity};
}

}  // namespace millrace::tools
