#include "actors/rank.hpp"

#include <algorithm>
#include <utility>

#include "actors/action_runner.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {

Rank::Rank(const PipelinePlan& plan, const RankSetup& setup)
    : plan_(plan),
      setup_(setup),
      blueprint_(plan, setup.id, setup.needs),
      compute_(blueprint_.build(false)),
      runner_(std::make_unique<ProgramRunner>()) {
  worker_ = std::make_unique<ComputeWorker>(
      64,
      [this] {
        team_ = std::make_unique<kernels::ThreadTeam>(setup_.needs.threads, setup_.cores);
        stream_ = std::make_unique<kernels::Stream>(*team_, setup_.implementation);
      },
      [this] {
        stream_.reset();
        team_.reset();
      },
      setup_.computing);
}

Rank::~Rank() = default;

void Rank::replace_runner(std::unique_ptr<ActionRunner> runner) {
  worker_->run([&] { runner_ = std::move(runner); });  // it is the worker's
}

void Rank::add_ends(cluster::ChannelEnds& ends, bool same_process) {
  if (ends.spec.to_rank == id().value) {
    ends.receive_ring = compute_->memory().ring(ends.spec.id);
    ends.receiver = events;
  }
  if (ends.spec.from_rank == id().value) {
    ends.sender = events;
    if (!same_process) ends.send_ring = compute_->memory().ring(ends.spec.id);
  }
}

void Rank::set_progress(const cluster::Progress& progress) {
  const std::int64_t now = runtime::steady_now();
  progress_.write({progress, now, now});
}

std::unique_ptr<cluster::Links> connect(const PipelinePlan& plan, const cluster::Topology& topology, cluster::Transport* transport,
                                        const std::vector<Rank*>& ranks) {
  std::vector<cluster::ChannelEnds> channels;
  for (const auto& spec : plan.channels()) {
    cluster::ChannelEnds ends;
    ends.spec = spec;
    const bool same_process = topology.hosts(spec.from_rank) && topology.hosts(spec.to_rank);
    for (auto* rank : ranks) rank->add_ends(ends, same_process);
    channels.push_back(ends);
  }
  auto links = std::make_unique<cluster::Links>(topology, transport, channels);
  for (auto* rank : ranks) rank->links = links.get();
  return links;
}

}  // namespace millrace::actors
