#pragma once

#include <cstdint>

#include "kernels/base/options.hpp"

namespace millrace::kernels {

/// How far the rows of a batch field are shifted to the left, and across which borders of documents.
struct ShiftOptions {
  std::int64_t sequence = 1;  // tokens of a row
  std::int64_t distance = 1;  // places, 1 or more
  std::int32_t filling = 0;   // where nothing can be shifted to
  // Whether only the last of the borders between a place and where its entry comes from counts, as in MaxText: with a distance of 2 or more
  // a place near the end of a document then gets an entry of the next one.
  bool last_border_only = false;

  bool operator==(const ShiftOptions&) const = default;

  static constexpr auto members() {
    return std::tuple(member("sequence", &ShiftOptions::sequence), member("distance", &ShiftOptions::distance),
                      member("filling", &ShiftOptions::filling), member("last_border_only", &ShiftOptions::last_border_only));
  }
};

/// Whether place `token` of a row gets the entry `distance` places behind it: if that is in the same row and belongs to a document, and no
/// other document begins between the two. `segments` are those of the row. Devices call it too (--expt-relaxed-constexpr).
[[nodiscard]] constexpr bool may_shift(const std::int32_t* segments, std::int64_t token, const ShiftOptions& options) {
  const std::int64_t from = token + options.distance;
  if (from >= options.sequence || segments[from] == 0) return false;
  for (std::int64_t place = options.last_border_only ? from - 1 : token; place < from; ++place)
    if (segments[place] != segments[from]) return false;
  return true;
}

}  // namespace millrace::kernels
