#pragma once

#include <cstdint>
#include <string>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// A canonical text that identifies a schedule: placement, microbatches and lists, but not the name. One line per rank.
[[nodiscard]] std::string canonical_text(const Schedule& schedule);

/// FNV-1a (64 bit) of canonical_text(): part of the run hash that all processes compare before the first kernel runs.
[[nodiscard]] std::uint64_t content_hash(const Schedule& schedule);

}  // namespace millrace::runtime
