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

void want_no_run(const std::string& path, const char* component) {
  const bool run = runtime::is_run_directory(path);
  MILLRACE_CHECK(!run && !runtime::is_checkpoint(path), ExitCode::model, component,
                 "{}: {} of millrace, expected the folder of a model; `millrace ckpt export-hf {} OUT` makes one of it", path,
                 run ? "a run directory" : "a checkpoint", path);
}

}  // namespace millrace::tools
