#pragma once

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The same schedule with every B replaced by its I immediately followed by its W. The numbers and their order are the same; it
/// is for ranks that can run a stage's backward either whole or split, but not both. A list without B, or without I, is returned
/// unchanged. Error(config) if a W would overtake an older one of its stage (0I0 0B1 0W0).
[[nodiscard]] Schedule with_one_kind_of_backward(const Schedule& schedule);

}  // namespace millrace::runtime
