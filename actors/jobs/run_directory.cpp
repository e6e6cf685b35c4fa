#include "actors/jobs/run_directory.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "cluster/host/log.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::actors {
namespace {

constexpr std::uint64_t largest_metrics = std::uint64_t{1} << 36;

/// Ranks outlive an mpirun that is killed by a second or two, so if the same command is run again immediately, the run is still
/// in use.
class Patience {
 public:
  explicit Patience(const std::string& directory) : directory_(directory) {}
  bool operator()() {
    using namespace std::chrono;
    constexpr seconds patience{5};
    const auto now = steady_clock::now();
    if (!end_) {
      end_ = now + patience;
      cluster::log_warning("{}: another process is training in this run directory; waiting up to {} s for it to end", directory_,
                           patience.count());
    }
    if (now >= *end_) return false;
    std::this_thread::sleep_for(milliseconds(50));
    return true;
  }

 private:
  const std::string& directory_;
  std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace

RunDirectory::RunDirectory(std::string directory, std::int64_t keep, const RunIdentity& identity)
    : directory_(std::move(directory)), identity_(identity) {
  runtime::Retention retention;
  retention.keep_last = static_cast<std::uint64_t>(keep);
  store_ = std::make_unique<runtime::CheckpointStore>(directory_, retention, Patience(directory_));
  auto found = store_->newest_usable();
  for (const auto& warning : found.warnings) cluster::log_warning("{}", warning);
  checkpoint_ = std::move(found.checkpoint);
}

void RunDirectory::check_identity(const IdentityKeys& current, const std::vector<runtime::DataFile>& files) const {
  if (checkpoint_) actors::check_identity(identity_, *checkpoint_, current, files, directory_);
}

void RunDirectory::check_content(const DataContent& content) const {
  if (!checkpoint_) return;
  const auto warning = actors::check_content(*checkpoint_, content, directory_);
  if (!warning.empty()) cluster::log_warning("{}", warning);
}

bool RunDirectory::is_evaluated(std::int64_t step) const {
  if (runtime::kind_of(metrics_path()) == runtime::PathKind::missing) return false;
  // In the form written by MetricsFile; the rest of the line does not matter.
  return runtime::read_text_file(metrics_path(), largest_metrics, ExitCode::storage)
             .find(fmt::format("\n{{\"step\":{},\"evaluation_loss\":", step)) != std::string::npos;
}

std::string RunDirectory::metrics_path() const { return runtime::join_path(directory_, "metrics.jsonl"); }

runtime::MetricsFile* RunDirectory::metrics(std::int64_t step) {
  if (!metrics_) {
    metrics_ = std::make_unique<runtime::MetricsFile>(metrics_path(), static_cast<std::uint64_t>(step));
    runtime::write_text_file(runtime::join_path(directory_, "run.toml"), identity_.text);
  }
  return metrics_.get();
}

}  // namespace millrace::actors
