#include "actors/jobs/resume_advice.hpp"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "kernels/base/check.hpp"
#include "runtime/checkpoint/checkpoint_names.hpp"
#include "runtime/checkpoint/checkpoint_records.hpp"

namespace millrace::actors {
namespace {

constexpr auto limit = std::chrono::milliseconds(100);

/// The step of the newest checkpoint, 0 without any; nothing if the file system does not say so in time.
std::optional<std::uint64_t> newest_step(const std::string& directory) {
  // The thread may outlive this function, on a network disk that does not answer.
  const auto found = std::make_shared<std::promise<std::uint64_t>>();
  auto answer = found->get_future();
  try {
    std::thread([found, folder = runtime::checkpoints_folder(directory)] {
      try {
        const auto steps = runtime::checkpoint_steps(folder);
        found->set_value(steps.empty() ? 0 : steps.back());
      } catch (...) {
        found->set_exception(std::current_exception());
      }
    }).detach();
    if (answer.wait_for(limit) == std::future_status::ready) return answer.get();
  } catch (const std::exception&) {  // no thread, or the folder cannot be read
  }
  return std::nullopt;
}

}  // namespace

std::string resume_advice(const std::string& directory) {
  if (directory.empty()) return "The job ends; nothing of it was saved, since run.directory is not set";
  const auto step = newest_step(directory);
  if (!step) return fmt::format("The job ends; if {} has a checkpoint, the same command resumes it from there", directory);
  if (*step == 0) return fmt::format("The job ends; {} has no checkpoint yet, so the same command begins anew", directory);
  return fmt::format("The job ends; the same command resumes it after step {}, from {}", *step,
                     runtime::checkpoints_folder(directory) + "/" + runtime::checkpoint_name(*step));
}

}  // namespace millrace::actors
