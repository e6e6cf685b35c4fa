#include "actors/jobs/parity.hpp"

#include "kernels/base/device.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

int parity(const std::vector<std::string>& arguments) {
  actors::Session session;
  actors::ParitySettings settings;
  session.prepare_together([&] {
    const Arguments parsed(arguments, {"dtype", "device", "ranks", "chunks", "schedule", "layout", "rematerialize", "tolerance", "threads"},
                           {});
    MILLRACE_CHECK(parsed.positional().size() == 1, ExitCode::usage, "millrace parity",
                   "{} folders given, expected one with config.json, model.safetensors, golden.safetensors", parsed.positional().size());
    settings.folder = parsed.positional().front();
    settings.dtype = parsed.text("dtype", "fp32");
    MILLRACE_CHECK(settings.dtype == "fp32" || settings.dtype == "bf16", ExitCode::usage, "millrace parity",
                   "--dtype {}, expected fp32 or bf16", settings.dtype);
    settings.device = parsed.text("device", "cpu");
    static_cast<void>(kernels::parse_device(settings.device));
    settings.ranks = static_cast<int>(parsed.integer("ranks", session.launch().processes, 1, 4096));
    settings.chunks = static_cast<int>(parsed.integer("chunks", 1, 1, 4096));
    settings.schedule = parsed.text("schedule", settings.chunks > 1 ? "looped-bfs" : "1f1b");
    settings.layout = parsed.text("layout", "");
    settings.rematerialize = parsed.text("rematerialize", "none");
    settings.tolerance = parsed.real("tolerance", 1);
    settings.threads = static_cast<int>(parsed.integer("threads", 1, 1, 4096));
  });
  session.connect(settings.ranks, settings.cluster);
  bool within = false;
  session.carry_out([&] { within = actors::run_parity(session, settings); });
  return within ? 0 : static_cast<int>(ExitCode::difference);
}

}  // namespace millrace::tools
