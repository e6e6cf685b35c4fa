#pragma once

#include <cstdint>
#include <vector>

#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::runtime {

/// The transfers of one rank with its replicas in a simulated list: they take turns in their order, each once what it sends, or the place
/// for what it gets, is ready. Replicas run the same list, so one of them is simulated.
class TransferLane {
 public:
  /// `transfers` must outlive it. `actions`: of the rank's list.
  TransferLane(const std::vector<ListTransfer>& transfers, std::size_t actions);

  /// When the parameters that the rank's next action needs are here, and the action whose end the transfers up to then waited for last; -1:
  /// none. Actions are asked about in order; `action_ends(n)` says when the n-th one ended.
  struct Ready {
    double time = 0;
    std::int32_t source = -1;
  };
  template <class ActionEnds>
  Ready ready(std::size_t action, const ActionEnds& action_ends) {
    return run(needed_.empty() ? 0 : needed_[action], action_ends);
  }
  /// When all transfers have ended, after all actions.
  template <class ActionEnds>
  double end(const ActionEnds& action_ends) {
    return run(transfers_.size(), action_ends).time;
  }

 private:
  template <class ActionEnds>
  Ready run(std::size_t count, const ActionEnds& action_ends) {
    for (; next_ < count; ++next_) {
      const ListTransfer& transfer = transfers_[next_];
      const double enabled = transfer.after > 0 ? action_ends(static_cast<std::size_t>(transfer.after - 1)) : 0;
      if (enabled >= newest_.time) newest_ = {enabled, transfer.after - 1};
      newest_.time += transfer.time;
      times_.push_back(newest_);
    }
    return count == 0 ? Ready{} : times_[count - 1];
  }

  const std::vector<ListTransfer>& transfers_;
  std::vector<std::size_t> needed_;  // by action: so many transfers must have ended; empty: there are none
  std::size_t next_ = 0;
  Ready newest_;
  std::vector<Ready> times_;  // by transfer
};

}  // namespace millrace::runtime
