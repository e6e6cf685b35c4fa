#include "tools/commands/found_checkpoint.hpp"

#include <filesystem>

#include "configs/load.hpp"
#include "kernels/base/check.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::tools {
namespace {

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

[[noreturn]] void refuse(const std::string& path, const char* component) {
  MILLRACE_CHECK(exists(path), ExitCode::checkpoint, component, "{}: there is no such folder", path);
  fail(ExitCode::checkpoint, component, "{}: neither a run directory (it has no folder checkpoints/) nor a checkpoint (it has no {})", path,
       runtime::manifest_name);
}

}  // namespace

bool is_run_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(runtime::checkpoints_folder(path), error);
}

bool is_checkpoint(const std::string& path) {
  return exists(runtime::join_path(path, runtime::manifest_name)) || exists(runtime::join_path(path, runtime::commit_name));
}

std::vector<runtime::ListedCheckpoint> committed_checkpoints(const std::string& path, const char* component) {
  if (!is_run_directory(path)) refuse(path, component);
  return runtime::list_checkpoints(path);
}

runtime::CheckpointReader open_checkpoint(const std::string& path, const char* component) {
  if (is_checkpoint(path)) return runtime::CheckpointReader(path);
  const auto listed = committed_checkpoints(path, component);
  MILLRACE_CHECK(!listed.empty(), ExitCode::checkpoint, component, "{}: no checkpoint was committed", path);
  return runtime::CheckpointReader(listed.back().folder);
}

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
