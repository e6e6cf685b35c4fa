#pragma once

#include <string_view>
#include <vector>

namespace millrace::runtime {

/// What is known about a built-in schedule before it is generated. Formulas: P ranks, V chunks, M microbatches, N the group; F,
/// I, W, B = I + W are the times of a whole rank, F&B that of an overlapped pair; links cost nothing. docs/schedules.md has the
/// pictures.
struct ScheduleFacts {
  std::string_view name;      // pipeline.schedule
  std::string_view bubble;    // makespan − work of a rank
  std::string_view peak;      // of the fullest rank, in microbatches of a whole rank
  std::string_view messages;  // number of messages between ranks per microbatch
  std::string_view wants;     // its requirements
  std::string_view use;       // when to choose it
};

/// One entry for each of schedule_names(), in that order.
[[nodiscard]] const std::vector<ScheduleFacts>& schedule_catalogue();

}  // namespace millrace::runtime
