#include "tools/commands/run_settings.hpp"

#include "configs/identity.hpp"

namespace millrace::tools {

actors::RunSettings settings_of(const configs::RunConfig& config, const std::string& build) {
  actors::RunSettings settings;
  static_cast<actors::JobConfig&>(settings) = config;
  settings.text = configs::canonical_text(config);
  settings.build = build;
  settings.identity = [config](std::int64_t threads) {
    auto resolved = config;
    resolved.train.threads = threads;
    return configs::identity(resolved);
  };
  settings.check_identity = configs::check_identity;
  return settings;
}

}  // namespace millrace::tools
