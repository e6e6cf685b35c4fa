#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/engine/transfer_record.hpp"

namespace millrace::actors {

using runtime::TransferKind;

/// A transfer between replicas: a step of the reduction, or a gather, each of one or several exchanges.
struct Transfer {
  TransferKind kind = TransferKind::reduction;
  std::size_t index = 0;     // among those of its kind
  int exchanges = 1;         // that have not ended
  bool enabled = true;       // what it sends is complete
  std::size_t of = 0;        // of a list: which of its sums a reduction is of, which of its residences a gather
  std::size_t arrivals = 0;  // the place where what arrives is kept, of those that its kind has
};

/// Which transfers of a rank are posted, have ended and are taken: all in the order in which they were appended, with at most so many of a
/// kind and at most so many exchanges posted and not taken. Plain state. Positions count the transfers since the queue was empty.
class TransferQueue {
 public:
  /// `ahead`: by kind, how many may be posted and not taken. `exchanges`: how many of all of them, or one transfer.
  TransferQueue(std::array<std::size_t, 2> ahead, int exchanges) : ahead_(ahead), most_exchanges_(exchanges) {}

  /// Room for so many transfers, so that appending them allocates nothing.
  void reserve(std::size_t transfers) {
    transfers_.reserve(transfers);
    sizes_.reserve(transfers);
  }
  /// Appends a transfer and returns its position.
  std::size_t append(Transfer transfer);
  void enable(std::size_t position) { transfers_.at(position).enabled = true; }
  /// The next transfer to post, once; nothing while none may be.
  [[nodiscard]] std::optional<std::size_t> to_post();
  /// One exchange of a transfer has ended, in any order.
  void ended(std::size_t position) { --transfers_.at(position).exchanges; }
  /// The next transfer of which all exchanges have ended, once; nothing while there is none.
  [[nodiscard]] std::optional<std::size_t> to_take();
  [[nodiscard]] const Transfer& at(std::size_t position) const { return transfers_.at(position); }
  /// The number of those that were taken since the queue was empty.
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  [[nodiscard]] bool all_taken() const noexcept { return taken_ == transfers_.size(); }
  /// The position of the next transfer to be appended.
  [[nodiscard]] std::size_t size() const noexcept { return all_taken() ? 0 : transfers_.size(); }

 private:
  [[nodiscard]] std::size_t ahead_of(TransferKind kind) const noexcept { return ahead_[static_cast<std::size_t>(kind)]; }

  std::array<std::size_t, 2> ahead_;
  int most_exchanges_;
  std::array<std::size_t, 2> appended_{};   // by kind
  std::array<std::size_t, 2> under_way_{};  // by kind: posted and not taken
  int exchanges_ = 0;                       // … of which so many exchanges
  std::vector<Transfer> transfers_;
  std::vector<int> sizes_;  // by transfer: all of its exchanges
  std::size_t posted_ = 0, taken_ = 0;
};

}  // namespace millrace::actors
