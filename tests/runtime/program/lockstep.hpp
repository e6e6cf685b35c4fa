#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/program/exchange.hpp"

namespace millrace::runtime::testing {

/// The members of a group in one thread: every segment is run by all of them before the next one, and rows are copied when they are
/// awaited. Until then what is to be received is filled with NaNs, as if rows were under way all the time.
class Lockstep {
 public:
  explicit Lockstep(std::size_t members) : members_(members) {
    for (std::size_t member = 0; member < members; ++member) ports_.push_back(std::make_unique<Port>(*this, member));
  }

  /// Calls run(member, segment, port) for all members and segments; the members' programs have the same segments.
  template <class Run>
  void run(const std::vector<Segment>& segments, Run&& run) {
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
      if (segments[segment].awaits.valid()) deliver(segments[segment].awaits);
      for (std::size_t member = 0; member < members_; ++member) run(member, segment, static_cast<ExchangePort*>(ports_[member].get()));
    }
    EXPECT_TRUE(posted_.empty()) << posted_.size() << " exchanges were posted and not awaited";
  }

  /// Rows that members got from others, and the fewest that a member has received in an exchange with tables.
  std::int64_t unused = 0;  // exchanges that no member needed
  std::int64_t exchanged_rows = 0, fewest_received = std::numeric_limits<std::int64_t>::max();

 private:
  struct Posted {
    kernels::Tensor send, receive;
    std::span<const std::int32_t> send_table, receive_table;
    bool ranges = false, unused = false;
  };
  struct Port final : ExchangePort {
    Port(Lockstep& group_, std::size_t member_) : group(group_), member(member_) {}
    void post(const ExchangePost& post) override {
      const auto row = post.receive.shape[0] == 0 ? 0 : static_cast<std::int64_t>(post.receive.bytes()) / post.receive.shape[0];
      for (std::size_t from = 0; from < group.members_ && !post.unused(); ++from) {
        const RowRange rows = rows_of_member(from, group.members_, post.receive.shape[0], post.receive_table, post.ranges);
        std::memset(post.receive.data + rows.first * row, 0xff, static_cast<std::size_t>((rows.end - rows.first) * row));
      }
      auto& all = group.posted_[post.exchange.index];
      all.resize(group.members_);
      EXPECT_EQ(all[member].send.data, nullptr) << "exchange " << post.exchange.index << " is posted twice by member " << member;
      all[member] = {post.send, post.receive, post.send_table, post.receive_table, post.ranges, post.unused()};
    }
    Lockstep& group;
    std::size_t member;
  };

  void deliver(ExchangeId exchange) {
    const auto found = posted_.find(exchange.index);
    ASSERT_NE(found, posted_.end()) << "exchange " << exchange.index << " is awaited and was not posted";
    unused += found->second[0].unused ? 1 : 0;
    for (std::size_t from = 0; from < members_; ++from) {
      EXPECT_EQ(found->second[from].unused, found->second[0].unused) << "member " << from << ", exchange " << exchange.index;
      for (std::size_t to = 0; to < members_ && !found->second[from].unused; ++to) copy(found->second[from], from, found->second[to], to);
    }
    for (const Posted& posted : found->second)
      if (!posted.receive_table.empty()) fewest_received = std::min(fewest_received, posted.receive.shape[0]);
    posted_.erase(found);
  }

  void copy(const Posted& from, std::size_t source, const Posted& to, std::size_t owner) {
    const RowRange sent = rows_of_member(owner, members_, from.send.shape[0], from.send_table, from.ranges);
    const RowRange received = rows_of_member(source, members_, to.receive.shape[0], to.receive_table, to.ranges);
    ASSERT_EQ(sent.end - sent.first, received.end - received.first) << "rows from member " << source << " to member " << owner;
    if (sent.end == sent.first) return;
    const auto row = static_cast<std::int64_t>(from.send.bytes()) / from.send.shape[0];
    std::memcpy(to.receive.data + received.first * row, from.send.data + sent.first * row,
                static_cast<std::size_t>((sent.end - sent.first) * row));
    if (source != owner && !from.send_table.empty()) exchanged_rows += sent.end - sent.first;
  }

  std::size_t members_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::map<std::int32_t, std::vector<Posted>> posted_;
};

}  // namespace millrace::runtime::testing
