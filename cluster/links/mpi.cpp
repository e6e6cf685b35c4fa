#include <algorithm>
#include <chrono>

#include "cluster/links/mpi_end.hpp"
#include "cluster/links/remote.hpp"
#include "cluster/links/slot.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;

class MpiRemote final : public RemoteLinks, public Poller {
 public:
  MpiRemote(const Topology& topology, Transport& transport, std::size_t piece_bytes)
      : topology_(topology), transport_(transport), piece_bytes_(std::min(piece_bytes, Links::default_piece_bytes)) {
    MILLRACE_CHECK(topology.processes() == transport.processes() && topology.process() == transport.process(), ExitCode::internal,
                   "cluster.link", "process {} of {} by the topology, {} of {} by MPI", topology.process(), topology.processes(),
                   transport.process(), transport.processes());
  }

  Link& add(const ChannelEnds& ends) override {
    const bool sends = topology_.hosts(ends.spec.from_rank);
    const int peer = topology_.process_of(sends ? ends.spec.to_rank : ends.spec.from_rank);
    MILLRACE_CHECK(ends.spec.id <= transport_.world().tag_limit, ExitCode::start, "cluster.link", "{}: this MPI has tags up to {}",
                   channel_text(ends.spec), transport_.world().tag_limit);
    const MpiRoute route{peer, transport_.host(peer) == transport_.host(topology_.process())};
    ends_.push_back(goes_in_batches(ends.spec, piece_bytes_) ? make_batch_end(ends, transport_, route, sends)
                                                             : make_piece_end(ends, transport_, route, sends, piece_bytes_));
    return *ends_.back();
  }

  void start() override {
    heads_.assign(ends_.size(), MPI_REQUEST_NULL);
    indices_.resize(ends_.size());
    statuses_.resize(ends_.size());
    transport_.run([this] {
      for (const auto& end : ends_) end->post();
    });
    transport_.attach(*this);
    started_ = true;
  }

  void stop() override {
    if (!started_) return;
    started_ = false;
    transport_.detach(*this);
    transport_.run([this] {
      for (const auto& end : ends_) end->take_back();
    });
  }

  Activity poll() override {
    bool moved = false, waiting = false;
    Activity still = Activity::listening;
    for (std::size_t index = 0; index < ends_.size(); ++index) {
      MpiEnd& end = *ends_[index];
      moved |= end.post();
      if (!end.outstanding()) continue;
      waiting = true;
      still = std::max(still, end.while_waiting());
      heads_[index] = end.head();
    }
    if (!waiting) return moved ? Activity::moved : Activity::idle;
    const bool transferring = std::any_of(ends_.begin(), ends_.end(), [](const auto& end) { return end->transferring(); });
    const bool busy = transferring || Clock::now() - last_ended_ < soon;
    for (int look = 0; look < (busy ? many_looks : few_looks); ++look) {
      if (!take_ended()) continue;
      last_ended_ = Clock::now();
      return Activity::moved;
    }
    return moved ? Activity::moved : transferring ? Activity::transferring : still;
  }

 private:
  // Turns of MPI's progress engine: it moves long messages part by part, each part during a poll; and a message is often soon
  // followed by another, whose parts are not announced.
  static constexpr int few_looks = 4, many_looks = 32;
  static constexpr auto soon = std::chrono::microseconds(300);

  bool take_ended() {
    int count = 0;
    check_mpi(MPI_Testsome(static_cast<int>(heads_.size()), heads_.data(), &count, indices_.data(), statuses_.data()), "MPI_Testsome");
    for (int ended = 0; ended < count; ++ended) {
      MpiEnd& end = *ends_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(ended)])];
      end.advance(statuses_[static_cast<std::size_t>(ended)]);
      // More may have ended, and checking costs little.
      while (end.advance_if_ended()) {
      }
      end.ring_sender();
    }
    return count > 0;
  }

  const Topology topology_;
  Transport& transport_;
  const std::size_t piece_bytes_;
  bool started_ = false;
  Clock::time_point last_ended_{};  // of any message
  std::vector<std::unique_ptr<MpiEnd>> ends_;
  // One entry per end, its oldest request: MPI_Testsome is linear in the number of requests, and the chunks of an end finish in
  // order anyway.
  std::vector<MPI_Request> heads_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::unique_ptr<RemoteLinks> RemoteLinks::make(const Topology& topology, Transport& transport, std::size_t piece_bytes) {
  return std::make_unique<MpiRemote>(topology, transport, piece_bytes);
}

}  // namespace millrace::cluster
