#include "actors/rank/transfer_queue.hpp"

namespace millrace::actors {

std::size_t TransferQueue::append(Transfer transfer) {
  if (all_taken()) {
    transfers_.clear();
    posted_ = taken_ = 0;
  }
  transfer.arrivals = appended_[static_cast<std::size_t>(transfer.kind)]++ % ahead_of(transfer.kind);
  transfers_.push_back(transfer);
  return transfers_.size() - 1;
}

std::optional<std::size_t> TransferQueue::to_post() {
  if (posted_ == transfers_.size()) return std::nullopt;
  const Transfer& next = transfers_[posted_];
  const bool room = posted_ == taken_ || (transfers_[taken_].kind == next.kind && posted_ - taken_ < ahead_of(next.kind));
  if (!next.enabled || !room) return std::nullopt;
  return posted_++;
}

std::optional<std::size_t> TransferQueue::to_take() {
  if (taken_ == posted_ || transfers_[taken_].exchanges > 0) return std::nullopt;
  return taken_++;
}

}  // namespace millrace::actors
