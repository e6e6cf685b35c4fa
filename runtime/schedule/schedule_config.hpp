#pragma once

#include <string>
#include <vector>

namespace millrace::runtime {

/// The values of pipeline.schedule: the names that make_schedule() accepts, in the order of the documentation.
[[nodiscard]] const std::vector<std::string>& schedule_names();

}  // namespace millrace::runtime
