#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/exchange/remote_parts.hpp"
#include "cluster/links/mpi_world.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

using ExchangeClock = std::chrono::steady_clock;

/// Over shared memory MPI has sent a message up to this size when MPI_Isend returns (256 bytes with its header). A longer one ends when
/// the receiver has taken it, which then rings the sender.
constexpr int inline_bytes = 128;

/// A part longer than this (4 KiB with its header) MPI sends only when its receive is posted. Without single copies that takes several
/// steps, so its first bytes are sent ahead: they inform the receiving transport that a transfer is in progress and needs polling, so that
/// it does not sleep in the middle of it.
constexpr std::int64_t eager_bytes = 4000;

/// A sender may sleep when the receiver posts much later, and without single-copy transfers (which containers may forbid) MPI moves a long
/// message part by part, each during a poll of the sender and of the receiver. So the receiver rings it this often during a transfer.
constexpr auto ring_during_transfer = std::chrono::microseconds(20);

/// MPI puts a message off if the receiver has a few KiB of others to take first, also one whose request has ended; it leaves during a later
/// poll of the sender. So polls go on for a while after the last message, and its receiver is rung again, after twice the time each time.
constexpr auto put_off_while = std::chrono::milliseconds(1000), first_ring_again = std::chrono::milliseconds(2);

constexpr int largest_tag = 32767;  // the smallest upper bound of tags that MPI guarantees

/// Consecutive exchanges of a pair have different tags, so that a receive never takes the message of a neighbouring exchange. Messages of
/// one tag keep their order, so equal tables match however often the tags repeat.
constexpr int most_tags_per_pair = 64, least_tags_per_pair = 8;

/// Messages from one member of a group to another.
using Way = std::tuple<int, int, int>;  // group, from, to

/// A part that is sent or received. One MPI message at a time: only parts of more than piece_bytes have more than two.
struct Flow {
  GroupMember* member = nullptr;
  Posting* posting = nullptr;
  int peer = 0;     // its place in the group
  int process = 0;  // the peer's
  int tag = 0;
  bool sends = false;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  std::int64_t moved = 0;  // before the message that is under way
  int message = 0;         // bytes of that message
  ExchangeClock::time_point posted{}, rung{};
};

class MpiParts final : public RemoteParts {
 public:
  MpiParts(const Topology& topology, Transport& transport, std::span<const ExchangeGroup> groups, ExchangeUse use, std::size_t piece_bytes)
      : topology_(topology),
        transport_(transport),
        communicator_(transport.world().exchanges.at(static_cast<std::size_t>(use))),
        announces_(!transport.world().single_copy),
        piece_bytes_(static_cast<std::int64_t>(std::min(piece_bytes, Exchanges::default_piece_bytes))) {
    MILLRACE_CHECK(topology.processes() == transport.processes() && topology.process() == transport.process(), ExitCode::internal,
                   "cluster.exchange", "process {} of {} by the topology, {} of {} by MPI", topology.process(), topology.processes(),
                   transport.process(), transport.processes());
    number_ways(groups);
    recipients_.resize(static_cast<std::size_t>(transport.processes()));
  }

  void add(GroupMember& member) override {
    const LocalGroup& group = member.group();
    Remote& remote = members_.emplace_back();
    remote.member = &member;
    remote.peers.resize(static_cast<std::size_t>(group.size()));
    std::size_t most = flows_.capacity();
    for (int peer = 0; peer < group.size(); ++peer) {
      const int process = topology_.process_of(group.group.ranks[static_cast<std::size_t>(peer)]);
      if (process == topology_.process()) continue;
      const int id = group.group.id, place = member.place();
      remote.peers[static_cast<std::size_t>(peer)] = {process, tags_per_pair_ * numbers_.at({id, place, peer}),
                                                      tags_per_pair_ * numbers_.at({id, peer, place})};
      most += 2 * Exchanges::max_outstanding;
    }
    flows_.reserve(most);
    requests_.reserve(most);
    indices_.resize(most);
    statuses_.resize(most);
  }

  void wake() noexcept override { transport_.wake(); }

  Activity poll() override {
    now_ = ExchangeClock::now();
    if (std::exchange(ended_, false)) last_ended_ = now_;
    bool moved = false;
    for (const Remote& remote : members_) {
      while (Posting* const posting = remote.member->next_remote()) {
        begin(remote, *posting);
        moved = true;
      }
    }
    if (flows_.empty()) return moved ? Activity::moved : look_after_last_messages();
    const Activity waiting = while_waiting();
    const bool busy = waiting == Activity::transferring || now_ - last_ended_ < soon;
    for (int look = 0; look < (busy ? many_looks : few_looks); ++look) {
      if (!take_ended()) continue;
      ended_ = true;
      return Activity::moved;
    }
    if (waiting == Activity::transferring) ring_sleeping_senders();
    ring_receivers_again();
    return moved ? Activity::moved : waiting;
  }

  void take_back() override {
    for (std::size_t index = 0; index < flows_.size(); ++index) {
      MPI_Request& request = requests_[index];
      if (request == MPI_REQUEST_NULL) continue;
      if (flows_[index].sends) {  // Open MPI cannot cancel it, and waiting for a peer that has failed would not end
        MPI_Request_free(&request);
      } else {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    }
    flows_.clear();
    requests_.clear();
  }

  void check_nothing_came() override {
    int found = 0, bytes = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, &status), "MPI_Iprobe");
    if (!found) return;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    const int number = status.MPI_TAG % tags_per_pair_;
    for (const Remote& remote : members_) {
      const LocalGroup& group = remote.member->group();
      for (int peer = 0; peer < group.size(); ++peer) {
        const Peer& from = remote.peers[static_cast<std::size_t>(peer)];
        MILLRACE_CHECK(
            from.process != status.MPI_SOURCE || from.receive_tag != status.MPI_TAG - number, ExitCode::internal, "cluster.exchange",
            "group {} ({}): {} sent {} bytes to {}, which expected none, in an exchange whose number modulo {} is {}", group.group.id,
            group.group.name, group.member_text(peer), bytes, group.member_text(remote.member->place()), tags_per_pair_, number);
      }
    }
    fail(ExitCode::internal, "cluster.exchange", "process {} sent {} bytes with tag {}, which belongs to no group", status.MPI_SOURCE,
         bytes, status.MPI_TAG);
  }

 private:
  struct Peer {
    int process = -1;  // -1: in this process
    int send_tag = 0, receive_tag = 0;
  };
  struct Remote {
    GroupMember* member = nullptr;
    std::vector<Peer> peers;  // by place
  };

  // As for links: turns of MPI's progress engine, which moves long messages part by part; and a message is often soon followed by another.
  static constexpr int few_looks = 4, many_looks = 32;
  static constexpr auto soon = std::chrono::microseconds(300);

  /// Numbers the ways from each process to each other one; every process finds the same numbers.
  void number_ways(std::span<const ExchangeGroup> groups) {
    std::map<std::pair<int, int>, int> counts;  // by processes
    int most = 1;
    for (const ExchangeGroup& group : groups) {
      const int members = static_cast<int>(group.ranks.size());
      for (int from = 0; from < members; ++from) {
        for (int to = 0; to < members; ++to) {
          const int source = topology_.process_of(group.ranks[static_cast<std::size_t>(from)]);
          const int target = topology_.process_of(group.ranks[static_cast<std::size_t>(to)]);
          if (source == target) continue;
          const int number = counts[{source, target}]++;
          most = std::max(most, number + 1);
          if (source == topology_.process() || target == topology_.process()) numbers_[{group.id, from, to}] = number;
        }
      }
    }
    const int tags = std::min(largest_tag, transport_.world().tag_limit) + 1;
    tags_per_pair_ = std::min(most_tags_per_pair, tags / most);
    MILLRACE_CHECK(tags_per_pair_ >= least_tags_per_pair, ExitCode::start, "cluster.exchange",
                   "two processes have {} pairs of members that exchange, expected at most {}: MPI has {} tags, and a pair needs {}. Start "
                   "more processes, so that each hosts fewer ranks",
                   most, tags / least_tags_per_pair, tags, least_tags_per_pair);
  }

  /// Sends first: MPI_Irecv copies a long part that is already here, and the other member would wait for ours meanwhile. Both in rotation
  /// from the own place, so that not all members send to the same one.
  void begin(const Remote& remote, Posting& posting) {
    const int members = static_cast<int>(remote.peers.size()), place = remote.member->place();
    const int tag = static_cast<int>(posting.sequence % tags_per_pair_);
    const auto start = [&](int peer, bool sends) {
      const Peer& at = remote.peers[static_cast<std::size_t>(peer)];
      const Posting::Part& part = (sends ? posting.send : posting.receive)[static_cast<std::size_t>(peer)];
      if (at.process < 0 || part.bytes == 0) return;
      // What is sent is not written to: MPI takes the pointer as const.
      std::byte* const data = sends ? const_cast<std::byte*>(posting.from) + part.at : posting.into + part.at;
      flows_.push_back({.member = remote.member,
                        .posting = &posting,
                        .peer = peer,
                        .process = at.process,
                        .tag = (sends ? at.send_tag : at.receive_tag) + tag,
                        .sends = sends,
                        .data = data,
                        .bytes = part.bytes});
      requests_.push_back(MPI_REQUEST_NULL);
      post_message(flows_.size() - 1);
    };
    for (int step = 1; step < members; ++step) start((place + step) % members, true);
    for (int step = 1; step < members; ++step) start((place + members - step) % members, false);
  }

  /// The next message of a flow.
  void post_message(std::size_t index) {
    Flow& flow = flows_[index];
    const bool announces = announces_ && flow.moved == 0 && flow.bytes > eager_bytes;
    flow.message = static_cast<int>(std::min({flow.bytes - flow.moved, piece_bytes_, announces ? inline_bytes : flow.bytes}));
    std::byte* const data = flow.data + flow.moved;
    if (flow.sends) {
      check_mpi(MPI_Isend(data, flow.message, MPI_BYTE, flow.process, flow.tag, communicator_, &requests_[index]), "MPI_Isend");
      transport_.wake(flow.process);
    } else {
      check_mpi(MPI_Irecv(data, flow.message, MPI_BYTE, flow.process, flow.tag, communicator_, &requests_[index]), "MPI_Irecv");
    }
    flow.posted = flow.rung = now_;
    if (!flow.sends) return;
    Recipient& recipient = recipients_[static_cast<std::size_t>(flow.process)];
    last_sent_ = recipient.sent = recipient.rung = flow.posted;
  }

  [[nodiscard]] Activity while_waiting() const {
    Activity most = after_sending();
    for (const Flow& flow : flows_) {
      // A receiver is at a transfer from its first message to its last. A peer may post much later than a sender, which therefore does not
      // poll intensively for longer than the transfer would take.
      const bool transferring =
          flow.sends ? now_ - flow.posted < std::chrono::milliseconds(1) + std::chrono::nanoseconds(2 * flow.message) : flow.moved > 0;
      if (transferring) return Activity::transferring;
      if (flow.sends) most = std::max(most, flow.message <= inline_bytes ? Activity::unsignalled : Activity::sending);
    }
    return most;
  }

  void ring_sleeping_senders() {
    for (Flow& flow : flows_) {
      if (flow.sends || flow.moved == 0 || now_ - flow.rung < ring_during_transfer) continue;
      flow.rung = now_;
      transport_.wake(flow.process);
    }
  }

  [[nodiscard]] bool sent_lately() const { return now_ - last_sent_ <= put_off_while; }

  /// How the transport may sleep when nothing else is under way: without bells its sleeps are short anyhow.
  [[nodiscard]] Activity after_sending() const {
    return sent_lately() && transport_.world().bells ? Activity::sending : Activity::listening;
  }

  void ring_receivers_again() {
    if (!sent_lately() || !transport_.world().bells) return;
    for (std::size_t process = 0; process < recipients_.size(); ++process) {
      Recipient& to = recipients_[process];
      if (now_ - to.sent > put_off_while || now_ - to.rung < std::max<ExchangeClock::duration>(first_ring_again, to.rung - to.sent))
        continue;
      to.rung = now_;
      transport_.wake(static_cast<int>(process));
    }
  }

  /// When no request is left.
  Activity look_after_last_messages() {
    if (!sent_lately()) return Activity::idle;
    int found = 0;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");  // a turn of MPI
    ring_receivers_again();
    return after_sending();
  }

  bool take_ended() {
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
    if (count <= 0) return false;  // also MPI_UNDEFINED: there is no request
    for (int ended = 0; ended < count; ++ended) {
      const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(ended)]);
      const MPI_Status& status = statuses_[static_cast<std::size_t>(ended)];
      message_ended(flows_[index], status, code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS);
    }
    for (const bool sends : {true, false}) {  // as in begin()
      for (int ended = 0; ended < count; ++ended) {
        const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(ended)]);
        if (flows_[index].sends == sends && flows_[index].moved < flows_[index].bytes) post_message(index);
      }
    }
    for (std::size_t index = 0; index < flows_.size();) {
      if (flows_[index].moved < flows_[index].bytes) {
        ++index;
        continue;
      }
      const Flow flow = std::exchange(flows_[index], flows_.back());
      requests_[index] = requests_.back();
      flows_.pop_back();
      requests_.pop_back();
      flow.member->done(*flow.posting, flow.peer);
    }
    return true;
  }

  void message_ended(Flow& flow, const MPI_Status& status, int code) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (!flow.sends && (code == MPI_ERR_TRUNCATE || (code == MPI_SUCCESS && bytes != flow.message))) refuse_size(flow, bytes);
    check_mpi(code, flow.sends ? "MPI_Isend" : "MPI_Irecv");
    if (!flow.sends && flow.message > inline_bytes) transport_.wake(flow.process);
    flow.moved += flow.message;
  }

  [[noreturn]] void refuse_size(const Flow& flow, int found) const {
    const LocalGroup& group = flow.member->group();
    // A message as long as the first one of a longer part may be just that.
    const bool more = (announces_ && flow.moved == 0 && found == inline_bytes) || found == piece_bytes_;
    fail(ExitCode::internal, "cluster.exchange", "{}: {} sent {} bytes{} to {}, which expected {}", group.text(flow.posting->sequence),
         group.member_text(flow.peer), flow.moved + found, more ? " or more" : "", group.member_text(flow.member->place()), flow.bytes);
  }

  const Topology topology_;
  Transport& transport_;
  const MPI_Comm communicator_;
  const bool announces_;
  const std::int64_t piece_bytes_;
  std::map<Way, int> numbers_;  // of the ways from and to this process
  int tags_per_pair_ = 0;
  std::vector<Remote> members_;
  ExchangeClock::time_point now_{};                       // when the poll began: reading the clock takes as long as a small MPI call
  ExchangeClock::time_point last_ended_{}, last_sent_{};  // any message
  bool ended_ = false;                                    // a message, during the poll before
  struct Recipient {
    ExchangeClock::time_point sent{}, rung{};
  };
  std::vector<Recipient> recipients_;  // by process
  // What is under way, without gaps: MPI_Testsome is linear in the number of requests. Room for all that may be is reserved.
  std::vector<Flow> flows_;
  std::vector<MPI_Request> requests_;  // of each flow
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::unique_ptr<RemoteParts> RemoteParts::make(const Topology& topology, Transport& transport, std::span<const ExchangeGroup> groups,
                                               ExchangeUse use, std::size_t piece_bytes) {
  return std::make_unique<MpiParts>(topology, transport, groups, use, piece_bytes);
}

}  // namespace millrace::cluster
