#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/exchange/exchange.hpp"

namespace millrace::cluster {

class GroupMember;
class RemoteParts;

/// A group, and its members in this process. `mutex` decides which of two members is the later one at an exchange; nothing is copied under
/// it.
struct LocalGroup {
  explicit LocalGroup(const ExchangeGroup& from) : group(from), here(from.ranks.size()) {}
  [[nodiscard]] int size() const { return static_cast<int>(group.ranks.size()); }
  /// "group 3 (expert), exchange 17".
  [[nodiscard]] std::string text(std::int64_t sequence) const;
  /// "member 1 (rank 5)".
  [[nodiscard]] std::string member_text(int place) const;

  const ExchangeGroup group;
  std::mutex mutex;
  std::vector<GroupMember*> here;  ///< by place; null: in another process
};

/// One exchange of one member, from its post to its end. The places are used again, for exchange sequence + max_outstanding.
struct Posting {
  struct Part {
    std::int64_t at = 0, bytes = 0;
  };
  std::int64_t sequence = -1;  ///< the newest exchange that was posted here; written under the group's mutex
  const std::byte* from = nullptr;
  std::byte* into = nullptr;
  std::vector<Part> send, receive;  ///< by member
  std::int64_t bytes_sent = 0, bytes_received = 0;
  /// What is not done yet, by member: the copying with one in this process, a message each way with one elsewhere; the member's own entry
  /// is its post, which copies its part to itself.
  std::unique_ptr<std::atomic<int>[]> left;
  std::atomic<int> left_in_all{0};
  std::atomic<bool> under_way{false};
};

/// A member in this process.
class GroupMember final : public Exchange {
 public:
  /// `remote` carries the parts between processes; null if all members are here. Adds itself to the group.
  GroupMember(LocalGroup& group, int place, ExchangeEvents& events, RemoteParts* remote);

  void post(std::int64_t sequence, const std::byte* from, std::byte* into, const ExchangeTable& table) override;
  [[nodiscard]] std::vector<int> missing(std::int64_t sequence) const override;
  [[nodiscard]] Counters counters() const noexcept override;

  [[nodiscard]] const LocalGroup& group() const noexcept { return group_; }
  [[nodiscard]] int place() const noexcept { return place_; }

  // -- for RemoteParts, on the transport thread ------------------------------------------

  /// The next posting with messages to or from other processes, in the order of the exchanges; null: there is no other now.
  Posting* next_remote();
  /// One of the things that `left` counts for `peer` is done. The last one ends the exchange: the posting may be used again when this
  /// returns.
  void done(Posting& posting, int peer);

 private:
  [[nodiscard]] Posting& posting(std::int64_t sequence) {
    return postings_[static_cast<std::size_t>(sequence % Exchanges::max_outstanding)];
  }
  [[nodiscard]] std::string text(std::int64_t sequence) const;
  void check_table(std::int64_t sequence, const ExchangeTable& table) const;
  void check_overlap(std::int64_t sequence, const std::byte* from, const std::byte* into, const ExchangeTable& table);
  void check_agreement(const Posting& sender, int from, const Posting& receiver, int to, std::int64_t sequence) const;
  /// Returns the number of messages to and from other processes.
  int fill(Posting& posting, const std::byte* from, std::byte* into, const ExchangeTable& table);
  void end(Posting& posting);

  /// Bytes that are sent or received, for finding overlaps.
  struct Stretch {
    std::uintptr_t begin = 0, end = 0;
    int peer = 0;
    bool sent = false;
  };

  LocalGroup& group_;
  const int place_;
  ExchangeEvents& events_;
  RemoteParts* const remote_;
  std::array<Posting, Exchanges::max_outstanding> postings_;
  std::int64_t next_ = 0;           // written under the group's mutex
  std::vector<int> claimed_;        // of the post that runs: the members here that posted earlier
  std::vector<Stretch> stretches_;  // of the post that runs
  // Postings for the transport thread. There are never more than may be under way, so an entry is read before it is written again.
  std::array<Posting*, Exchanges::max_outstanding> submitted_{};
  std::atomic<std::int64_t> submissions_{0};
  std::int64_t taken_ = 0;  // used by the transport thread
  std::atomic<std::int64_t> exchanges_{0}, bytes_sent_{0}, bytes_received_{0};
};

}  // namespace millrace::cluster
