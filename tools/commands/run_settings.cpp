#include "tools/commands/run_settings.hpp"

#include "configs/identity.hpp"

namespace millrace::tools {

actors::RunSettings settings_of(const configs::RunConfig& config, const std::string& build) {
  actors::RunSettings settings;
  static_cast<actors::JobConfig&>(settings) = config;
  settings.identity = {configs::canonical_text(config), build, configs::identity(config), configs::check_identity};
  return settings;
}

}  // namespace millrace::tools
