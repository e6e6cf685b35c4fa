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
  std::int64_t exchanged_rows = 0, fewest_received = std::numeric_limits<std::int64_t>::max();

 private:
  struct Posted {
    kernels::Tensor send, receive;
    std::span<const std::int32_t> send_table, receive_table;
  };
  struct Port final : ExchangePort {
    Port(Lockstep& group_, std::size_t member_) : group(group_), member(member_) {}
    void post(const ExchangePost& post) override {
      std::memset(post.receive.data, 0xff, post.receive.bytes());
      auto& all = group.posted_[post.exchange.index];
      all.resize(group.members_);
      EXPECT_EQ(all[member].send.data, nullptr) << "exchange " << post.exchange.index << " is posted twice by member " << member;
      all[member] = {post.send, post.receive, post.send_table, post.receive_table};
    }
    Lockstep& group;
    std::size_t member;
  };

  void deliver(ExchangeId exchange) {
    const auto found = posted_.find(exchange.index);
    ASSERT_NE(found, posted_.end()) << "exchange " << exchange.index << " is awaited and was not posted";
    for (std::size_t from = 0; from < members_; ++from)
      for (std::size_t to = 0; to < members_; ++to) copy(found->second[from], from, found->second[to], to);
    for (const Posted& posted : found->second)
      if (!posted.receive_table.empty()) fewest_received = std::min(fewest_received, posted.receive.shape[0]);
    posted_.erase(found);
  }

  struct Rows {
    std::int64_t begin, end;
  };
  /// The rows of one member in a table, or one of equal parts.
  [[nodiscard]] Rows rows_of(std::size_t member, std::span<const std::int32_t> table, const kernels::Tensor& tensor) const {
    const std::int64_t each = tensor.shape[0] / static_cast<std::int64_t>(members_), first = static_cast<std::int64_t>(member) * each;
    if (table.empty()) return {first, first + each};
    const std::size_t groups = (table.size() - 1) / members_;
    return {table[member * groups], table[(member + 1) * groups]};
  }
  void copy(const Posted& from, std::size_t source, const Posted& to, std::size_t owner) {
    const Rows sent = rows_of(owner, from.send_table, from.send), received = rows_of(source, to.receive_table, to.receive);
    ASSERT_EQ(sent.end - sent.begin, received.end - received.begin) << "rows from member " << source << " to member " << owner;
    if (sent.end == sent.begin) return;
    const auto row = static_cast<std::int64_t>(from.send.bytes()) / from.send.shape[0];
    std::memcpy(to.receive.data + received.begin * row, from.send.data + sent.begin * row,
                static_cast<std::size_t>((sent.end - sent.begin) * row));
    if (source != owner && !from.send_table.empty()) exchanged_rows += sent.end - sent.begin;
  }

  std::size_t members_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::map<std::int32_t, std::vector<Posted>> posted_;
};

}  // namespace millrace::runtime::testing
