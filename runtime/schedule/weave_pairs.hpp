#pragma once

#include <string_view>
#include <vector>

#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

/// The schedule without overlapped pairs: their halves run in order.
[[nodiscard]] Schedule without_pairs(Schedule schedule);

/// Makes overlapped pairs of neighbouring actions, whose segments a rank then weaves (runtime/schedule/weave.hpp): a backward and the
/// forward beside it, or two of one kind in a row, of different microbatches, if one of them has exchanges and the schedule stays
/// free of deadlock although the pair waits for what both need. Pairs that are there stay. A pure function of its arguments.
[[nodiscard]] Schedule with_woven_neighbours(Schedule schedule, const std::vector<StageShape>& shapes);

}  // namespace millrace::runtime
