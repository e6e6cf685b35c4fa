#include "tools/commands/run_settings.hpp"

#include "configs/identity.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/io/fault.hpp"
#include "tools/commands/continuation.hpp"

namespace millrace::tools {

actors::RunSettings settings_of(const configs::LoadedRun& run, const std::string& build) {
  const configs::RunConfig& config = run.config;
  actors::RunSettings settings;
  static_cast<actors::JobConfig&>(settings) = config;
  settings.overruled_model = run.overruled_model;
  settings.identity = {configs::canonical_text(config), build, configs::identity(config),
                       [keys = rate_keys(run)](const auto& recorded, const auto& current, const std::string& checkpoint,
                                               std::int64_t steps) { check_identity(recorded, current, checkpoint, steps, keys); }};
  settings.continuation = continuation_of(run);
  return settings;
}

void inject_faults(const configs::LoadedRun& run, int process) {
  if (run.config.fault.empty()) return;
  try {
    runtime::set_faults(run.config.fault, process);
  } catch (const Error& error) {
    fail(ExitCode::config, "config", "{}: debug.fault = {}: {}", run.settings.at("debug.fault").origin.place, run.config.fault,
         without_component(error.what()));
  }
}

}  // namespace millrace::tools
