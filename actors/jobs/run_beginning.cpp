#include "actors/jobs/run_beginning.hpp"

#include <fmt/format.h>

#include <sstream>

#include "actors/jobs/run_setup.hpp"
#include "actors/jobs/start_source.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/versions.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/base/device_type.hpp"

namespace millrace::actors {
namespace {

std::int64_t resolve_threads(const Session& session, std::int64_t requested) {
  if (requested > 0) return requested;
  return cluster::automatic_threads(session.topology(), session.launch(), cluster::usable_cores());
}

std::string libraries(kernels::DeviceKind kind) {
  const auto device = kernels::device_type(kind).libraries();
  return device.empty() ? cluster::mpi_version() : cluster::mpi_version() + ", " + device;
}

}  // namespace

std::string to_text(const RunBeginning& beginning) {
  // Paths may contain anything but zeros, so they come last, and the length of one says where the other begins.
  return fmt::format("{} {} {:d} {:d} {} {} {} {} {}{}", beginning.step, beginning.threads, beginning.whole, beginning.evaluated,
                     beginning.source_step, beginning.updates_before, beginning.source_hash.empty() ? "-" : beginning.source_hash,
                     beginning.checkpoint.size(), beginning.checkpoint, beginning.source);
}

RunBeginning beginning_from_text(const std::string& text) {
  RunBeginning beginning;
  std::istringstream stream(text);
  std::size_t length = 0;
  stream >> beginning.step >> beginning.threads >> beginning.whole >> beginning.evaluated >> beginning.source_step >>
      beginning.updates_before >> beginning.source_hash >> length;
  if (beginning.source_hash == "-") beginning.source_hash.clear();
  const auto paths = text.substr(static_cast<std::size_t>(stream.tellg()) + 1);
  beginning.checkpoint = paths.substr(0, length);
  beginning.source = paths.substr(length);
  return beginning;
}

RunBeginning agree_on_beginning(Session& session, const runtime::TrainConfig& train, const PipelinePlan& plan,
                                const RunDirectory* directory) {
  RunBeginning beginning;
  if (session.leads()) {
    const auto* const checkpoint = directory != nullptr ? directory->checkpoint() : nullptr;
    beginning.threads = resolve_threads(session, train.threads);
    if (checkpoint != nullptr) {
      beginning.step = static_cast<std::int64_t>(checkpoint->step());
      beginning.checkpoint = checkpoint->folder();
      beginning.whole = held_nothing_out(checkpoint->meta().identity);
      beginning.evaluated = directory->is_evaluated(beginning.step);
    } else if (!train.start_from.empty()) {
      const auto source = open_start(train.start_from);
      check_start(source, plan, train);
      beginning.source = source.folder();
      beginning.source_hash = source.state_hash().hex();
      beginning.source_step = static_cast<std::int64_t>(source.step());
      if (takes_state(train)) beginning.updates_before = updates_seen(source);
    }
  }
  return beginning_from_text(session.broadcast(to_text(beginning)));
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
