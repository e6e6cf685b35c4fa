#pragma once

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The same schedule with every B as its I and, right after it, its W: the same numbers in the same order, for whoever has a stage's
/// backward either whole or in parts, but not both. A list without B, or without I, is given back as it is. Error(config) where a W would
/// overtake an older one of its stage (0I0 0B1 0W0).
[[nodiscard]] Schedule with_one_kind_of_backward(const Schedule& schedule);

}  // namespace millrace::runtime
