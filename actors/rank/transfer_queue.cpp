#include "actors/rank/transfer_queue.hpp"

namespace millrace::actors {

std::size_t TransferQueue::append(Transfer transfer) {
  if (all_taken()) {
    transfers_.clear();
    sizes_.clear();
    posted_ = taken_ = 0;
  }
  transfer.arrivals = appended_[static_cast<std::size_t>(transfer.kind)]++ % ahead_of(transfer.kind);
  transfers_.push_back(transfer);
  sizes_.push_back(transfer.exchanges);
  return transfers_.size() - 1;
}

std::optional<std::size_t> TransferQueue::to_post() {
  if (posted_ == transfers_.size()) return std::nullopt;
  const Transfer& next = transfers_[posted_];
  auto& of_kind = under_way_[static_cast<std::size_t>(next.kind)];
  const bool room = of_kind < ahead_of(next.kind) && (exchanges_ == 0 || exchanges_ + next.exchanges <= most_exchanges_);
  if (!next.enabled || !room) return std::nullopt;
  ++of_kind;
  exchanges_ += next.exchanges;
  return posted_++;
}

std::optional<std::size_t> TransferQueue::to_take() {
  if (taken_ == posted_ || transfers_[taken_].exchanges > 0) return std::nullopt;
  --under_way_[static_cast<std::size_t>(transfers_[taken_].kind)];
  exchanges_ -= sizes_[taken_];
  return taken_++;
}

}  // namespace millrace::actors
