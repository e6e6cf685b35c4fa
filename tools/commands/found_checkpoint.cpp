#include "tools/commands/found_checkpoint.hpp"

#include "configs/load.hpp"
#include "kernels/base/check.hpp"

namespace millrace::tools {
layers::ModelConfig model_of(const runtime::CheckpointReader& checkpoint, const char* component) {
  const auto& identity = checkpoint.meta().identity;
  MILLRACE_CHECK(identity.contains("model.hidden_size"), ExitCode::checkpoint, component,
                 "{}: its identity does not say what model it is of", checkpoint.folder());
  configs::LoadRequest request;
  request.complete = false;
  for (const auto& [key, value] : identity)
    if (key.starts_with("model.")) request.overrides.push_back(fmt::format("{}={}", key, value));
  return configs::load(request).config.model;
}

}  // namespace millrace::tools
