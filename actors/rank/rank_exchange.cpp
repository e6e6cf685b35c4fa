#include "actors/rank/rank_exchange.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.hpp"
#include "kernels/base/dtype.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/io/fault.hpp"
#include "runtime/schedule/weave.hpp"

namespace millrace::actors {
namespace {

constexpr const char* rank_exchange_component = "actors.rank_exchange";

static_assert(cluster::Exchanges::max_outstanding >= runtime::most_exchanges_under_way);

}  // namespace

RankExchange::RankExchange(int members, int own) : own_(static_cast<std::size_t>(own)) {
  for (Way* way : {&out_, &in_}) {
    way->at.resize(static_cast<std::size_t>(members));
    way->bytes.resize(static_cast<std::size_t>(members));
  }
}

/// The bytes of a member's rows: those of its groups in the table or, without one, an equal part.
void RankExchange::divide(Way& way, const kernels::Tensor& tensor, std::span<const std::int32_t> table, bool ranges) const {
  const std::size_t members = way.at.size();
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t row_bytes = rows == 0 ? 0 : tensor.shape.elements() / rows * static_cast<std::int64_t>(kernels::size_of(tensor.dtype));
  const bool fits = ranges          ? table.size() == 2 * members
                    : table.empty() ? rows % static_cast<std::int64_t>(members) == 0
                                    : (table.size() - 1) % members == 0;
  MILLRACE_CHECK(fits, ExitCode::internal, rank_exchange_component,
                 "an exchange of {} rows with a table of {} entries, expected parts for {} members", rows, table.size(), members);
  for (std::size_t member = 0; member < members; ++member) {
    const auto [first, end] = runtime::rows_of_member(member, members, rows, table, ranges);
    MILLRACE_CHECK(0 <= first && first <= end && end <= rows, ExitCode::internal, rank_exchange_component,
                   "member {} has rows {} to {} of an exchange, expected some of {}", member, first, end, rows);
    way.at[member] = first * row_bytes;
    way.bytes[member] = (end - first) * row_bytes;
  }
}

std::vector<int> RankExchange::missing(std::int64_t number) const {
  std::vector<int> ranks;
  if (exchange_ == nullptr) return ranks;
  const std::int64_t next = next_sequence_.load(std::memory_order_acquire);
  std::int64_t sequence = next;  // if it was not posted
  for (std::int64_t posted = std::max<std::int64_t>(0, next - cluster::Exchanges::max_outstanding); posted < next; ++posted)
    if (numbers_[place_of(posted)].load(std::memory_order_relaxed) == number) sequence = posted;
  for (const int place : exchange_->missing(sequence)) ranks.push_back(ranks_.at(static_cast<std::size_t>(place)));
  return ranks;
}

void RankExchange::post(const runtime::ExchangePost& post) {
  MILLRACE_CHECK(exchange_ != nullptr, ExitCode::internal, rank_exchange_component, "a rank without a group posts exchange {}", next_);
  const std::int64_t number = next_++;
  Transfer& transfer = transfer_of(number) = {};
  if (post.unused()) return events_->on_exchanged(0, number);
  runtime::fault_point("exchange.post");
  divide(out_, post.send, post.send_table, post.ranges);
  transfer.used = true;
  transfer.bytes = std::accumulate(out_.bytes.begin(), out_.bytes.end(), -out_.bytes.at(own_));
  transfer.begin = runtime::steady_now();
  divide(in_, post.receive, post.receive_table, post.ranges);
  const std::int64_t sequence = next_sequence_.load(std::memory_order_relaxed);
  numbers_[place_of(sequence)].store(number, std::memory_order_relaxed);
  next_sequence_.store(sequence + 1, std::memory_order_release);
  exchange_->post(sequence, static_cast<const std::byte*>(post.send.data), static_cast<std::byte*>(post.receive.data),
                  {out_.at, out_.bytes, in_.at, in_.bytes});
}

void RankExchange::on_exchanged(int group, std::int64_t sequence) {
  const std::int64_t number = numbers_[place_of(sequence)].load(std::memory_order_relaxed);
  transfer_of(number).end = runtime::steady_now();
  events_->on_exchanged(group, number);
}

RankExchange::Transfer RankExchange::transfer(std::int64_t number) const noexcept {
  const auto place = static_cast<std::size_t>(number) % transfers_.size();
  Transfer transfer = transfers_[place];
  transfer.end = std::max<std::int64_t>(transfer.end, kept_[place].load(std::memory_order_acquire).count());
  return transfer;
}

}  // namespace millrace::actors
