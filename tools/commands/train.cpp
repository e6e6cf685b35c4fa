#include <unistd.h>

#include <filesystem>
#include <optional>

#include "actors/training.hpp"
#include "configs/identity.hpp"
#include "kernels/base/device.hpp"
#include "runtime/io/fault.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {
namespace {

/// Whether a person watches stdout. mpirun gives its processes a terminal of their own whatever its output goes to, so there its output
/// decides.
bool watched(const cluster::Launch& launch) {
  if (!launch.under_mpirun) return isatty(STDOUT_FILENO) != 0;
  std::error_code error;
  const auto output = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), error).string();
  return !error && (output.starts_with("/dev/pts/") || output.starts_with("/dev/tty"));
}

actors::RunSettings settings_of(const configs::RunConfig& config, const cluster::Launch& launch) {
  actors::RunSettings settings;
  settings.directory = config.directory;
  settings.model_from = config.model_from;
  settings.model = config.model;
  settings.data = config.data;
  settings.train = config.train;
  settings.evaluate = config.evaluate;
  settings.pipeline = config.pipeline;
  settings.checkpoint = config.checkpoint;
  settings.rematerialize = config.rematerialize;
  settings.sample = config.sample;
  settings.cluster = config.cluster;
  settings.text = configs::canonical_text(config);
  settings.build = build_id();
  settings.terminal = watched(launch);
  settings.identity = [config](std::int64_t threads) {
    auto resolved = config;
    resolved.train.threads = threads;
    return configs::identity(resolved);
  };
  settings.check_identity = configs::check_identity;
  return settings;
}

}  // namespace

int train(const std::vector<std::string>& arguments) {
  const Arguments parsed(arguments, {}, {});
  actors::Session session;
  std::optional<configs::LoadedRun> run;
  session.prepare_together([&] {
    run = load_run(parsed.positional());
    static_cast<void>(kernels::parse_device(run->config.device));  // refuses what this build has no kernels for
    if (!run->config.fault.empty()) runtime::set_faults(run->config.fault, session.launch().process);
  });
  session.connect(static_cast<int>(run->config.pipeline.ranks), run->config.cluster);
  try {
    if (session.leads())
      for (const auto& warning : run->warnings) fmt::print(stderr, "warning: {}\n", warning);
    actors::train(session, settings_of(run->config, session.launch()));
  } catch (const Error& error) {
    session.fail(error.code(), error.what());
  } catch (const std::exception& error) {
    session.fail(ExitCode::internal, error.what());
  }
  session.close();
  return 0;
}

}  // namespace millrace::tools
