#include "actors/jobs/forward_job.hpp"

#include "actors/rank/initial_state.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {

namespace {

/// A hash of the sizes and of parts of a model's files: weights of hosts that differ should be noticed, but not be read twice for that.
std::string sample_of_files(const std::string& path) {
  constexpr std::uint64_t parts = 64, part_bytes = 4096;
  const bool folder = runtime::kind_of(runtime::join_path(path, ".")) == runtime::PathKind::directory;
  std::string sample;
  std::vector<std::byte> part;
  for (const std::string& name : folder ? runtime::list_directory(path) : std::vector<std::string>{""}) {
    if (folder && !name.ends_with(".safetensors")) continue;
    const auto file = runtime::File::open(folder ? runtime::join_path(path, name) : path, true, ExitCode::model);
    const std::uint64_t size = file.size();
    sample += fmt::format("{} {}\n", name, size);
    for (std::uint64_t i = 0; i < parts; ++i) {
      const std::uint64_t begin = size / parts * i;
      part.resize(std::min(part_bytes, size - begin));
      file.read_at(begin, part, ExitCode::model);
      sample += runtime::hash_of(std::span<const std::byte>(part)).hex();
    }
  }
  return runtime::hash_of(sample).hex();
}

std::string weights_of(const ForwardJob& job) {
  if (job.checkpoint.empty()) return sample_of_files(job.folder);
  return runtime::CheckpointReader(job.checkpoint).state_hash().hex() + (job.average ? ", averages" : "");
}

}  // namespace

PipelinePlan plan_of(const ForwardJob& job) { return make_plan(job.request); }

void read_weights(Pipeline& pipeline, const ForwardJob& job) {
  if (job.checkpoint.empty()) {
    for (auto* rank : pipeline.ranks()) initialize_from_folder(*rank, job.folder);
    return;
  }
  const runtime::CheckpointReader checkpoint(job.checkpoint);
  runtime::read_from(checkpoint, [&] {
    for (auto* rank : pipeline.ranks()) initialize_from_checkpoint(*rank, checkpoint, {.averages = job.average});
  });
}

void agree(Session& session, const PipelinePlan& plan, const ForwardJob& job, const std::string& input) {
  session.control().agree({{"plan", runtime::hash_of(plan.text()).hex()},
                           {"threads", std::to_string(job.threads)},
                           {"weights", session.topology().processes() > 1 ? weights_of(job) : ""},
                           {"input", runtime::hash_of(input).hex()},
                           {"instruction set", kernels::cpu_features().arithmetic()}});
}

}  // namespace millrace::actors
