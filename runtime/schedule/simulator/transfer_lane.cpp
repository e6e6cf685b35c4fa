#include "runtime/schedule/simulator/transfer_lane.hpp"

#include <algorithm>

namespace millrace::runtime {

TransferLane::TransferLane(const std::vector<ListTransfer>& transfers, std::size_t actions) : transfers_(transfers) {
  if (transfers.empty()) return;
  needed_.assign(actions, 0);
  for (std::size_t index = 0; index < transfers.size(); ++index)
    if (const int before = transfers[index].before; before >= 0 && static_cast<std::size_t>(before) < actions)
      needed_[static_cast<std::size_t>(before)] = index + 1;
  for (std::size_t action = 1; action < actions; ++action) needed_[action] = std::max(needed_[action], needed_[action - 1]);
}

}  // namespace millrace::runtime
