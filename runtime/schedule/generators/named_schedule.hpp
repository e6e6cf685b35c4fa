#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// How many chunks of the model a rank has.
enum class Chunks : std::uint8_t { one, two, any };

/// A schedule that pipeline.schedule can name: its generator, and what is known about it before it is generated. It is defined in the
/// generator's file and listed by one line in schedules.inc. Formulas: P ranks, V chunks, M microbatches, N the group; F, I, W, B = I + W
/// are the times of a whole rank, F&B that of an overlapped pair; links cost nothing. docs/schedules.md has the pictures.
struct NamedSchedule {
  std::string_view name;
  Chunks chunks = Chunks::one;
  bool takes_warmup = false;  // ScheduleRequest::warmup
  bool takes_groups = false;  // ScheduleRequest::group
  Schedule (*make)(const ScheduleRequest&) = nullptr;
  std::string_view bubble;        // makespan − work of a rank
  std::string_view peak;          // of the fullest rank, in microbatches of a whole rank
  std::string_view messages;      // number of messages between ranks per microbatch
  std::string_view requirements;  // on P, V and M
  std::string_view use;           // when to choose it
};

/// All of them, in the order of schedules.inc.
[[nodiscard]] std::span<const NamedSchedule* const> named_schedules();

}  // namespace millrace::runtime
