#include "actors/rank.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <utility>

#include "actors/action_runner.hpp"
#include "actors/messages.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {

/// Links call from the transport thread or from another rank's actor; the rank hears of it as messages.
class Rank::Events : public cluster::LinkEvents {
 public:
  explicit Events(Rank& rank) : rank_(rank) {}
  void on_arrival(const cluster::Arrival& arrival) override {
    const auto channel = static_cast<std::size_t>(arrival.channel);
    if (channel < rank_.arrival_delays.size()) {
      caf::delayed_anon_send(rank_.inbox, rank_.arrival_delays[channel], TokenArrived{arrival});
    } else {
      caf::anon_send(rank_.inbox, TokenArrived{arrival});
    }
  }
  void on_writable(int channel, std::int64_t sequence) override { caf::anon_send(rank_.inbox, SlotWritable{channel, sequence}); }

 private:
  Rank& rank_;
};

Rank::Rank(const PipelinePlan& plan, const RankSetup& setup)
    : plan_(plan),
      setup_(setup),
      blueprint_(plan, setup.id, setup.needs),
      compute_(blueprint_.build(false)),
      runner_(std::make_unique<ProgramRunner>()) {
  events_ = std::make_unique<Events>(*this);
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

void Rank::replace_runner(std::unique_ptr<ActionRunner> runner) { runner_ = std::move(runner); }

void Rank::add_ends(cluster::ChannelEnds& ends, bool same_process) {
  if (ends.spec.to_rank == id().value) {
    ends.receive_ring = compute_->memory().ring(ends.spec.id);
    ends.receiver = events_.get();
  }
  if (ends.spec.from_rank == id().value) {
    ends.sender = events_.get();
    if (!same_process) ends.send_ring = compute_->memory().ring(ends.spec.id);
  }
}

void Rank::set_progress(const cluster::Progress& progress) {
  const std::lock_guard lock(progress_mutex_);
  progress_ = progress;
}

cluster::Progress Rank::progress() const {
  const std::lock_guard lock(progress_mutex_);
  return progress_;
}

}  // namespace millrace::actors
