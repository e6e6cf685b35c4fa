#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/base/shift_options.hpp"

namespace millrace::runtime {

/// The modules of multi-token prediction whose targets are counted, [first, last]: module m has those of the tokens m places behind each
/// place.
struct MtpModules {
  std::int64_t first = 1, last = 0;
  bool last_border_only = false;  // ShiftOptions::last_border_only
};

/// The number of targets that all modules have together in rows of `sequence` tokens, of which `segments` are the documents; a negative
/// target is masked. The denominator of their loss.
[[nodiscard]] inline std::int64_t count_mtp_targets(std::span<const std::int32_t> targets, std::span<const std::int32_t> segments,
                                                    std::int64_t sequence, const MtpModules& modules) {
  std::int64_t found = 0;
  const auto tokens = static_cast<std::int64_t>(targets.size());
  for (std::int64_t row = 0; row < tokens; row += sequence) {
    for (std::int64_t module = modules.first; module <= modules.last; ++module) {
      const kernels::ShiftOptions options{.sequence = sequence, .distance = module, .last_border_only = modules.last_border_only};
      for (std::int64_t token = 0; token + module < sequence; ++token)
        if (targets[static_cast<std::size_t>(row + token + module)] >= 0 && kernels::may_shift(segments.data() + row, token, options))
          ++found;
    }
  }
  return found;
}

/// The same for one document: the places [begin, end) of its row. Its first `valid` tokens have a target. `own_segment`: whether no other
/// document of the row has its segment.
[[nodiscard]] inline std::int64_t count_mtp_targets(std::int64_t begin, std::int64_t valid, bool own_segment, const MtpModules& modules) {
  std::int64_t found = 0;
  for (std::int64_t module = modules.first; module <= modules.last; ++module) {
    // The first place of the document whose target the module has at a place `module` before it.
    std::int64_t first = std::max(begin, module);
    if (own_segment) first = modules.last_border_only ? std::max(begin + 1, module) : begin + module;
    found += std::max<std::int64_t>(0, begin + valid - first);
  }
  return found;
}

}  // namespace millrace::runtime
