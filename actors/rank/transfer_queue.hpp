#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace millrace::actors {

/// Which of some transfers, each of one or several exchanges, are posted, have ended and are taken: all in order, with at most `ahead`
/// posted and not taken. Plain state.
class TransferQueue {
 public:
  /// Begins anew. `exchanges`: by transfer, of how many it consists.
  void begin(std::vector<int> exchanges, std::size_t ahead) {
    left_ = std::move(exchanges);
    ahead_ = ahead;
    posted_ = taken_ = 0;
  }
  /// The next transfer to post, once; nothing while none may be.
  [[nodiscard]] std::optional<std::size_t> to_post() {
    if (posted_ == left_.size() || posted_ == taken_ + ahead_) return std::nullopt;
    return posted_++;
  }
  /// One exchange of a transfer has ended, in any order.
  void ended(std::size_t transfer) { --left_.at(transfer); }
  /// The next transfer of which all exchanges have ended, once; nothing while there is none.
  [[nodiscard]] std::optional<std::size_t> to_take() {
    if (taken_ == posted_ || left_[taken_] > 0) return std::nullopt;
    return taken_++;
  }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  [[nodiscard]] bool all_taken() const noexcept { return taken_ == left_.size(); }

 private:
  std::vector<int> left_;  // exchanges of each transfer that have not ended
  std::size_t ahead_ = 1, posted_ = 0, taken_ = 0;
};

}  // namespace millrace::actors
