#include "actors/rank.hpp"

#include <algorithm>
#include <utility>

#include "actors/action_runner.hpp"
#include "actors/channel_way.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {

Rank::Rank(const PipelinePlan& plan, const RankSetup& setup)
    : plan_(plan),
      setup_(setup),
      blueprint_(plan, setup.id, setup.needs),
      compute_(blueprint_.build(false)),
      runner_(std::make_unique<ProgramRunner>()),
      channels_(plan.channels()) {
  worker_ = std::make_unique<ComputeWorker>(
      64,
      [this] {
        team_ = std::make_unique<kernels::ThreadTeam>(setup_.needs.threads, setup_.cores);
        if (setup_.device().kind == kernels::DeviceKind::cuda) {
          queue_ = std::make_unique<kernels::Queue>(setup_.device(), setup_.needs.queue);
          completions_ = std::make_unique<Completions>(*queue_);
        }
        stream_ = std::make_unique<kernels::Stream>(*team_, setup_.implementation, queue_.get());
      },
      [this] {
        stream_.reset();
        completions_.reset();
        queue_.reset();
        team_.reset();
      },
      setup_.computing,
      setup_.device().kind == kernels::DeviceKind::cuda ? [this] { return completions_->poll(); } : std::function<bool()>());
}

Rank::~Rank() = default;

void Rank::replace_runner(std::unique_ptr<ActionRunner> runner) {
  worker_->run([&] { runner_ = std::move(runner); });  // it is the worker's
}

std::size_t Rank::planned_bytes() const noexcept {
  const std::size_t queue = queue_ == nullptr ? 0 : kernels::Queue::device_bytes(setup_.needs.queue);
  return compute_->memory_plan().total_bytes() + queue;
}

std::string Rank::noted_operation(runtime::StageId stage, runtime::Pass pass) const {
  const auto& program = compute_->stage(stage).programs(pass).program(runtime::program_of(pass));
  const std::uint32_t noted = queue_ == nullptr ? 0 : queue_->noted();
  return noted < program.size() ? program[noted].name : "";
}

void Rank::add_ends(cluster::ChannelEnds& ends) {
  const auto way = way_of(ends.spec, setup_.needs);
  if (ends.spec.to_rank == id().value) {
    ends.receive_ring = compute_->memory().link_ring(ends.spec.id);
    ends.receiver = events;
  }
  if (ends.spec.from_rank == id().value) {
    ends.sender = events;
    if (way == ChannelWay::direct || way == ChannelWay::staged) ends.send_ring = compute_->memory().link_ring(ends.spec.id);
  }
}

std::byte* Rank::program_place(int channel, std::byte* at, bool incoming) const {
  const auto way = way_of(channels_[static_cast<std::size_t>(channel)], setup_.needs);
  if (way == ChannelWay::shared || way == ChannelWay::direct || (way == ChannelWay::peer && incoming)) return at;
  const auto ring = compute_->memory().ring(channel);
  // In process the link's ring is the receiver's: as far into it as into ours.
  const std::byte* base =
      way == ChannelWay::peer ? links->link(channel).slot(0) - cluster::slot_payload_offset : compute_->memory().link_ring(channel).data();
  return ring.data() + (at - base);
}

SlotCopy Rank::incoming(int channel, std::byte* at, std::size_t bytes) const {
  std::byte* place = program_place(channel, at, true);
  return place == at ? SlotCopy{} : SlotCopy{place, at, bytes};
}

SlotCopy Rank::outgoing(int channel, std::byte* at, std::size_t bytes) const {
  std::byte* place = program_place(channel, at, false);
  return place == at ? SlotCopy{} : SlotCopy{at, place, bytes};
}

void Rank::copy_in(const SlotCopy& copy) const {
  if (!copy.present()) return;
  queue_->copy(kernels::Lane::copy_in, copy.to, copy.from, copy.bytes);
  queue_->order(kernels::Lane::compute, kernels::Lane::copy_in);
}

void Rank::copy_out(const SlotCopy& copy) const {
  if (!copy.present()) return;
  queue_->order(kernels::Lane::copy_out, kernels::Lane::compute);
  queue_->copy(kernels::Lane::copy_out, copy.to, copy.from, copy.bytes);
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
    for (auto* rank : ranks) rank->add_ends(ends);
    channels.push_back(ends);
  }
  auto links = std::make_unique<cluster::Links>(topology, transport, channels);
  for (auto* rank : ranks) rank->links = links.get();
  return links;
}

}  // namespace millrace::actors
