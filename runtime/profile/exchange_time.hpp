#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/profile/prediction.hpp"
#include "runtime/profile/step_view.hpp"

namespace millrace::runtime {

/// The total times of one exchange of a layer over all steps and the members of all groups, in nanoseconds.
struct ExchangeTime {
  int layer = -1;              // −1: none
  std::string name;            // "layers.3.mlp.dispatch"; of a further round "layers.3.round1.mlp.dispatch"
  char pass = 'F';             // F, I, W, B
  std::int64_t count = 0;      // of exchanges that at least one member needed
  std::int64_t bytes = 0;      // sent to other members
  std::int64_t under_way = 0;  // from the post of a member to the end of its exchange
  std::int64_t late = 0;       // the part of it in which other members had not posted
  std::int64_t exposed = 0;    // waits of the segments that need the rows
  /// The fraction of `under_way` that compute has hidden, 0 to 1.
  [[nodiscard]] double hidden() const;
};

/// Its name in the programs; "exchange 3 of stage 1" where it is not known.
[[nodiscard]] ExchangeName exchange_name(const Exchanging& exchanging, StageId stage, ActionKind kind, int number);

/// The exchanges of these steps by layer, pass and name, in the order in which a forward or backward posts them; empty if there are none.
[[nodiscard]] std::vector<ExchangeTime> exchange_times(const Exchanging& exchanging, std::span<const StepView> steps);

}  // namespace millrace::runtime
