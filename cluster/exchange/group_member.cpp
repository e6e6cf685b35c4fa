#include "cluster/exchange/group_member.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/exchange/remote_parts.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

constexpr const char* exchange_component = "cluster.exchange";

void copy_part(const Posting& sender, const Posting::Part& sent, const Posting& receiver, const Posting::Part& received) {
  if (sent.bytes > 0) std::memcpy(receiver.into + received.at, sender.from + sent.at, static_cast<std::size_t>(sent.bytes));
}

}  // namespace

std::string LocalGroup::text(std::int64_t sequence) const {
  return fmt::format("group {} ({}), exchange {}", group.id, group.name, sequence);
}

std::string LocalGroup::member_text(int place) const {
  return fmt::format("member {} (rank {})", place, group.ranks[static_cast<std::size_t>(place)]);
}

GroupMember::GroupMember(LocalGroup& group, int place, ExchangeEvents& events, RemoteParts* remote)
    : group_(group), place_(place), events_(events), remote_(remote) {
  const auto members = static_cast<std::size_t>(group.size());
  for (Posting& posting : postings_) {
    posting.send.resize(members);
    posting.receive.resize(members);
    posting.left = std::make_unique<std::atomic<int>[]>(members);
  }
  claimed_.reserve(members);
  stretches_.reserve(2 * members);
  group.here[static_cast<std::size_t>(place)] = this;
}

std::string GroupMember::text(std::int64_t sequence) const {
  return fmt::format("{}: {}", group_.text(sequence), group_.member_text(place_));
}

void GroupMember::check_table(std::int64_t sequence, const ExchangeTable& table) const {
  const auto members = static_cast<std::size_t>(group_.size());
  for (const auto& column : {table.send_at, table.send_bytes, table.receive_at, table.receive_bytes})
    MILLRACE_CHECK(column.size() == members, ExitCode::internal, exchange_component, "{} posts a table of {} members, expected {}",
                   text(sequence), column.size(), members);
  for (std::size_t peer = 0; peer < members; ++peer) {
    for (const bool sends : {true, false}) {
      const std::int64_t at = sends ? table.send_at[peer] : table.receive_at[peer];
      const std::int64_t bytes = sends ? table.send_bytes[peer] : table.receive_bytes[peer];
      MILLRACE_CHECK(at >= 0 && bytes >= 0, ExitCode::internal, exchange_component,
                     "{} {} {} {} bytes at {}, expected sizes and offsets of at least 0", text(sequence), sends ? "sends" : "receives from",
                     group_.member_text(static_cast<int>(peer)), bytes, at);
    }
  }
}

void GroupMember::check_overlap(std::int64_t sequence, const std::byte* from, const std::byte* into, const ExchangeTable& table) {
  stretches_.clear();
  const auto add = [this](const std::byte* base, std::int64_t at, std::int64_t bytes, std::size_t peer, bool sent) {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(at);
    if (bytes > 0) stretches_.push_back({begin, begin + static_cast<std::uintptr_t>(bytes), static_cast<int>(peer), sent});
  };
  for (std::size_t peer = 0; peer < table.send_at.size(); ++peer) {
    add(from, table.send_at[peer], table.send_bytes[peer], peer, true);
    add(into, table.receive_at[peer], table.receive_bytes[peer], peer, false);
  }
  std::sort(stretches_.begin(), stretches_.end(), [](const Stretch& one, const Stretch& other) { return one.begin < other.begin; });
  const Stretch none{};
  const Stretch *last_sent = &none, *last_received = &none;  // those that end last so far
  const auto name = [this](const Stretch& stretch) {
    return fmt::format("what it {} {}", stretch.sent ? "sends" : "receives from", group_.member_text(stretch.peer));
  };
  for (const Stretch& stretch : stretches_) {
    const Stretch& before = last_received->end > stretch.begin || stretch.sent ? *last_received : *last_sent;
    MILLRACE_CHECK(before.end <= stretch.begin, ExitCode::internal, exchange_component, "{}: {} overlaps {} by {} bytes", text(sequence),
                   name(stretch), name(before), std::min(before.end, stretch.end) - stretch.begin);
    const Stretch*& last = stretch.sent ? last_sent : last_received;
    if (stretch.end > last->end) last = &stretch;
  }
}

void GroupMember::check_agreement(const Posting& sender, int from, const Posting& receiver, int to, std::int64_t sequence) const {
  const std::int64_t sent = sender.send[static_cast<std::size_t>(to)].bytes;
  const std::int64_t expected = receiver.receive[static_cast<std::size_t>(from)].bytes;
  MILLRACE_CHECK(sent == expected, ExitCode::internal, exchange_component, "{}: {} sends {} bytes to {}, which expects {}",
                 group_.text(sequence), group_.member_text(from), sent, group_.member_text(to), expected);
}

int GroupMember::fill(Posting& posting, const std::byte* from, std::byte* into, const ExchangeTable& table) {
  posting.from = from;
  posting.into = into;
  posting.bytes_sent = posting.bytes_received = 0;
  int all = 0, remote = 0;
  for (int peer = 0; peer < group_.size(); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    const std::int64_t sent = table.send_bytes[index], received = table.receive_bytes[index];
    posting.send[index] = {table.send_at[index], sent};
    posting.receive[index] = {table.receive_at[index], received};
    int left = 1;
    if (group_.here[index] == nullptr) remote += left = (sent > 0 ? 1 : 0) + (received > 0 ? 1 : 0);
    posting.left[index].store(left, std::memory_order_relaxed);
    all += left;
    if (peer == place_) continue;
    posting.bytes_sent += sent;
    posting.bytes_received += received;
  }
  posting.left_in_all.store(all, std::memory_order_relaxed);
  return remote;
}

void GroupMember::post(std::int64_t sequence, const std::byte* from, std::byte* into, const ExchangeTable& table) {
  MILLRACE_CHECK(sequence == next_, ExitCode::internal, exchange_component, "{} posts it, expected exchange {}", text(sequence), next_);
  Posting& own = posting(sequence);
  MILLRACE_CHECK(!own.under_way.load(std::memory_order_acquire), ExitCode::internal, exchange_component,
                 "{} posts it while its exchange {} is under way, expected at most {} from the first to the last that is", text(sequence),
                 own.sequence, Exchanges::max_outstanding);
  check_table(sequence, table);
  const std::int64_t to_itself = table.send_bytes[static_cast<std::size_t>(place_)];
  const std::int64_t from_itself = table.receive_bytes[static_cast<std::size_t>(place_)];
  MILLRACE_CHECK(to_itself == from_itself, ExitCode::internal, exchange_component, "{} sends {} bytes to itself and expects {}",
                 text(sequence), to_itself, from_itself);
  check_overlap(sequence, from, into, table);
  const int messages = fill(own, from, into, table);

  // When two members of this process post, the one that takes the mutex later copies both ways. Until then neither exchange can end.
  claimed_.clear();
  {
    const std::lock_guard lock(group_.mutex);
    for (int step = 1; step < group_.size(); ++step) {
      const int peer = (place_ + step) % group_.size();
      GroupMember* const other = group_.here[static_cast<std::size_t>(peer)];
      if (other == nullptr || other->posting(sequence).sequence != sequence) continue;
      check_agreement(own, place_, other->posting(sequence), peer, sequence);
      check_agreement(other->posting(sequence), peer, own, place_, sequence);
      claimed_.push_back(peer);
    }
    own.sequence = sequence;
    own.under_way.store(true, std::memory_order_relaxed);
    next_ = sequence + 1;
  }

  if (messages > 0) {
    const std::int64_t number = submissions_.load(std::memory_order_relaxed);
    submitted_[static_cast<std::size_t>(number % Exchanges::max_outstanding)] = &own;
    submissions_.store(number + 1, std::memory_order_release);
    remote_->wake();
  }
  const auto self = static_cast<std::size_t>(place_);
  copy_part(own, own.send[self], own, own.receive[self]);
  for (const int peer : claimed_) {
    GroupMember& other = *group_.here[static_cast<std::size_t>(peer)];
    Posting& theirs = other.posting(sequence);
    copy_part(own, own.send[static_cast<std::size_t>(peer)], theirs, theirs.receive[self]);
    copy_part(theirs, theirs.send[self], own, own.receive[static_cast<std::size_t>(peer)]);
    other.done(theirs, place_);
    done(own, peer);
  }
  done(own, place_);  // last: from here on another post may run
}

void GroupMember::done(Posting& posting, int peer) {
  posting.left[static_cast<std::size_t>(peer)].fetch_sub(1, std::memory_order_relaxed);
  // Each thread's copies happen before its subtraction, and all subtractions before what the last one does.
  if (posting.left_in_all.fetch_sub(1, std::memory_order_acq_rel) == 1) end(posting);
}

void GroupMember::end(Posting& posting) {
  const std::int64_t sequence = posting.sequence;
  bytes_sent_.fetch_add(posting.bytes_sent, std::memory_order_relaxed);
  bytes_received_.fetch_add(posting.bytes_received, std::memory_order_relaxed);
  exchanges_.fetch_add(1, std::memory_order_relaxed);
  posting.under_way.store(false, std::memory_order_release);
  events_.on_exchanged(group_.group.id, sequence);
}

std::vector<int> GroupMember::missing(std::int64_t sequence) const {
  std::vector<int> places;
  if (sequence < 0) return places;
  const std::lock_guard lock(group_.mutex);
  const Posting& own = postings_[static_cast<std::size_t>(sequence % Exchanges::max_outstanding)];
  for (int peer = 0; peer < group_.size(); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    const GroupMember* const other = group_.here[index];
    const bool waits = sequence >= next_ ? other != nullptr && sequence >= other->next_
                                         : own.sequence == sequence && own.under_way.load(std::memory_order_acquire) &&
                                               own.left[index].load(std::memory_order_relaxed) > 0;
    if (waits) places.push_back(peer);
  }
  return places;
}

Exchange::Counters GroupMember::counters() const noexcept {
  return {exchanges_.load(std::memory_order_relaxed), bytes_sent_.load(std::memory_order_relaxed),
          bytes_received_.load(std::memory_order_relaxed)};
}

Posting* GroupMember::next_remote() {
  if (taken_ == submissions_.load(std::memory_order_acquire)) return nullptr;
  return submitted_[static_cast<std::size_t>(taken_++ % Exchanges::max_outstanding)];
}

}  // namespace millrace::cluster
