#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/links/exchange_use.hpp"
#include "cluster/topology.hpp"

namespace millrace::cluster {

class Transport;

/// A group of ranks that exchange bytes: rows inside of their actions, as the owners of a layer's experts do, or gradient sums and
/// parameters after a step's list, as ranks that hold the same weights do. The same in every process.
struct ExchangeGroup {
  int id = 0;              ///< unique among the groups of an Exchanges
  std::string name;        ///< "expert", "replicas", for messages
  std::vector<int> ranks;  ///< members, in their order; each once
};

/// Bytes of one exchange, by member: what this member sends to each, and where what comes from each is written, as offsets in the two
/// buffers. Parts of a member to itself are copied as well. A part may be empty: then nothing is sent. Read only during post().
struct ExchangeTable {
  std::span<const std::int64_t> send_at, send_bytes, receive_at, receive_bytes;
};

class ExchangeEvents {
 public:
  virtual ~ExchangeEvents() = default;
  /// All parts of exchange `sequence` are in this member's memory, and all that it sent have left: both buffers are the caller's again. On
  /// the transport thread, or inside of a post of this or another member in this process; cheap, must not throw. Exchanges of a group may
  /// end in any order.
  virtual void on_exchanged(int group, std::int64_t sequence) = 0;
};

/// One member of a group, as its rank sees it. All members post the same exchanges in the same order, numbered 0, 1, 2, …; how much each
/// pair transfers is known to both sides, and checked.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Begins exchange `sequence`, the next one: parts of `from` go out, those of the others come in to `into`. Neither buffer may be touched
  /// until on_exchanged, except that what is sent may be read. Does not wait, allocates nothing. One thread at a time. Throws
  /// Error(internal), without effect, for a sequence out of order, more than Exchanges::max_outstanding exchanges under way, a received
  /// part that overlaps another part (parts that are sent may overlap each other) and, within a process, sizes on which two members do not
  /// agree. Over MPI a disagreement of sizes fails the transport with a sentence that names both members. MPI cannot show it if one of
  /// the two sizes is 0, since nothing is sent then: if something is expected, missing() names the member that sends nothing; if
  /// something is sent that nobody expects, close() finds it.
  virtual void post(std::int64_t sequence, const std::byte* from, std::byte* into, const ExchangeTable& table) = 0;
  /// The members, by their place in the group, that exchange `sequence` still waits for: that have not posted it, as far as is known here,
  /// or with which bytes are under way. Itself and others of this process if they have not posted it. Any thread; for messages about a
  /// wait.
  [[nodiscard]] virtual std::vector<int> missing(std::int64_t sequence) const = 0;
  /// Payload so far: exchanges that have ended here, bytes sent to other members and received from them. Any thread.
  struct Counters {
    std::int64_t exchanges = 0, bytes_sent = 0, bytes_received = 0;
  };
  [[nodiscard]] virtual Counters counters() const noexcept = 0;
};

/// The groups with a member in this process. Members of one process copy each other's parts by pointer: the one that posts later copies
/// both ways. Between processes every pair exchanges over MPI, on a communicator of the exchanges' own, by the transport thread: receives
/// go straight into the member's memory.
class Exchanges {
 public:
  struct Member {
    int rank = 0;                      ///< a rank that this process hosts
    ExchangeEvents* events = nullptr;  ///< outlives this object
  };
  /// At most this many exchanges of a member may be under way, from the oldest to the newest.
  static constexpr int max_outstanding = 64;

  /// `groups` are the same in every process. `members`: every rank here that is in a group, once, whatever the number of its groups.
  /// `transport` may be null if no group leaves this process. Of each use there is one object at a time. `piece_bytes`: longer parts are
  /// sent in pieces (MPI's counts have 31 bits). Throws Error(internal) for groups and members that do not fit, Error(start) if MPI's tags
  /// do not suffice.
  Exchanges(const Topology& topology, Transport* transport, std::span<const ExchangeGroup> groups, std::span<const Member> members,
            ExchangeUse use = ExchangeUse::rows, std::size_t piece_bytes = default_piece_bytes);
  ~Exchanges();
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;

  /// Throws Error(internal) if the rank is no member of the group or not hosted here.
  [[nodiscard]] Exchange& exchange(int group, int rank) const;
  /// Collective over all processes, once every exchange has ended. Throws Error(internal) if something arrived that no member expected.
  void close();

  static constexpr std::size_t default_piece_bytes = std::size_t{1} << 30;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
