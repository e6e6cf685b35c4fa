#include "tools/commands/run_settings.hpp"

#include "configs/identity.hpp"
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

}  // namespace millrace::tools
