#include "actors/jobs/forward_job.hpp"

#include "actors/rank/initial_state.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {

PipelinePlan plan_of(const ForwardJob& job) { return make_plan(job.request); }

void read_weights(Pipeline& pipeline, const ForwardJob& job) {
  std::optional<runtime::CheckpointReader> checkpoint;
  if (!job.checkpoint.empty()) checkpoint.emplace(job.checkpoint);
  const auto fill = [&] {
    for (auto* rank : pipeline.ranks()) {
      if (checkpoint) {
        initialize_from_checkpoint(*rank, *checkpoint, {.averages = job.average});
      } else {
        initialize_from_folder(*rank, job.folder);
      }
    }
  };
  checkpoint ? runtime::read_from(*checkpoint, fill) : fill();
}

void agree(Session& session, const PipelinePlan& plan, const ForwardJob& job, const std::string& input) {
  session.control().agree({{"plan", runtime::hash_of(plan.text()).hex()},
                           {"threads", std::to_string(job.threads)},
                           {"input", runtime::hash_of(input).hex()},
                           {"instruction set", kernels::cpu_features().arithmetic()}});
}

}  // namespace millrace::actors
