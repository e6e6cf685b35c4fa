#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/topology.hpp"

namespace millrace::cluster {

class Transport;

/// A group of ranks that exchange rows inside of their actions, such as the owners of a layer's experts. The same in every process.
struct ExchangeGroup {
  int id = 0;              ///< unique in the job
  std::string name;        ///< "expert", for messages
  std::vector<int> ranks;  ///< members, in their order; each once
};

/// Bytes of one exchange, by member: what this member sends to each, and where what comes from each is written. Parts of a member to itself
/// are copied as well. A part may be empty: then nothing is sent.
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
  /// until on_exchanged, except that what is sent may be read. Does not block, allocates nothing. One thread at a time. Throws
  /// Error(internal) for a sequence out of order, a part that overlaps another, and, within a process, sizes on which two members do not
  /// agree; over MPI a disagreement of sizes fails the transport with a sentence that names both members.
  virtual void post(std::int64_t sequence, const std::byte* from, std::byte* into, const ExchangeTable& table) = 0;
  /// The members, by their place in the group, that exchange `sequence` still waits for: that have not posted it, as far as is known here,
  /// or whose bytes are under way. Any thread; for messages about a wait.
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
  /// At most this many exchanges of a member may be under way.
  static constexpr int max_outstanding = 8;

  /// Collective over all processes if `transport` is given, which may be null if the job has one process. `members`: of all groups, those
  /// that are here.
  Exchanges(const Topology& topology, Transport* transport, std::span<const ExchangeGroup> groups, std::span<const Member> members);
  ~Exchanges();
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;

  /// Throws Error(internal) if the rank is no member of the group or not hosted here.
  [[nodiscard]] Exchange& exchange(int group, int rank) const;
  /// Collective, once every exchange has ended.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cluster
