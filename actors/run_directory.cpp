#include "actors/run_directory.hpp"

#include <utility>

#include "runtime/io/file_system.hpp"

namespace millrace::actors {

RunDirectory::RunDirectory(const RunSettings& settings) : settings_(settings) {
  runtime::Retention retention;
  retention.keep_last = static_cast<std::uint64_t>(settings.checkpoint.keep);
  store_ = std::make_unique<runtime::CheckpointStore>(settings.directory, retention);
  auto found = store_->newest_usable();
  for (const auto& warning : found.warnings) fmt::print(stderr, "warning: {}\n", warning);
  checkpoint_ = std::move(found.checkpoint);
}

void RunDirectory::check_identity(const std::map<std::string, std::string>& identity) const {
  if (checkpoint_) settings_.check_identity(checkpoint_->meta().identity, identity, checkpoint_->folder());
}

runtime::MetricsFile* RunDirectory::metrics(std::int64_t step) {
  if (!metrics_) {
    metrics_ = std::make_unique<runtime::MetricsFile>(settings_.directory + "/metrics.jsonl", static_cast<std::uint64_t>(step));
    runtime::write_text_file(runtime::join_path(settings_.directory, "run.toml"), settings_.text);
  }
  return metrics_.get();
}

}  // namespace millrace::actors
