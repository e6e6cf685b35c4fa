#include "actors/jobs/run_beginning.hpp"

#include <fmt/format.h>

#include "actors/jobs/run_setup.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/versions.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/cpu/onednn_version.hpp"

namespace millrace::actors {
namespace {

std::string text_of(const RunBeginning& beginning) {
  return fmt::format("{} {} {} {}", beginning.step, beginning.threads, beginning.whole ? 1 : 0, beginning.checkpoint);
}

/// The inverse of text_of(). The checkpoint's path comes last, since it may contain blanks.
RunBeginning parse_beginning(const std::string& text) {
  RunBeginning beginning;
  const auto first = text.find(' '), second = text.find(' ', first + 1), third = text.find(' ', second + 1);
  beginning.step = std::stoll(text.substr(0, first));
  beginning.threads = std::stoll(text.substr(first + 1, second - first - 1));
  beginning.whole = text.substr(second + 1, third - second - 1) == "1";
  beginning.checkpoint = text.substr(third + 1);
  return beginning;
}

std::int64_t resolve_threads(const Session& session, std::int64_t requested, const runtime::CheckpointReader* checkpoint) {
  if (requested > 0) return requested;
  if (checkpoint != nullptr && noted_threads(*checkpoint) > 0) return noted_threads(*checkpoint);
  return cluster::automatic_threads(session.topology(), session.launch(), cluster::usable_cores());
}

std::string libraries(kernels::DeviceKind kind) {
  const auto cpu = kernels::cpu::onednn_version() + ", " + cluster::mpi_version();
  const auto device = kernels::device_type(kind).libraries();
  return device.empty() ? cpu : cpu + ", " + device;
}

}  // namespace

RunBeginning agree_on_beginning(Session& session, std::int64_t threads, const runtime::CheckpointReader* checkpoint) {
  RunBeginning beginning;
  if (session.leads()) {
    beginning.threads = resolve_threads(session, threads, checkpoint);
    if (checkpoint != nullptr) {
      beginning.step = static_cast<std::int64_t>(checkpoint->step());
      beginning.checkpoint = checkpoint->folder();
      beginning.whole = held_nothing_out(checkpoint->meta().identity);
    }
  }
  return parse_beginning(session.broadcast(text_of(beginning)));
}

std::string instruction_set() { return kernels::cpu_features().arithmetic(); }

Notes arithmetic_notes(kernels::DeviceKind kind, const std::string& build) {
  return {{"instruction_set", instruction_set()}, {"libraries", libraries(kind)}, {"build", build}};
}

std::vector<std::string> changed_notes(const runtime::CheckpointReader& checkpoint, const Notes& now) {
  std::vector<std::string> warnings;
  for (const auto& [name, value] : now) {
    const auto noted = checkpoint.meta().notes.find(name);
    if (noted == checkpoint.meta().notes.end() || noted->second == value) continue;
    warnings.push_back(
        fmt::format("{} is {}, the checkpoint was written with {}: the numbers may differ from those of a run that never stopped", name,
                    value, noted->second));
  }
  return warnings;
}

}  // namespace millrace::actors
