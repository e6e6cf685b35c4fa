#pragma once

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {

/// Fills `keys`, i32 [T, L], with key lists: for each token some places of its row, which need not be earlier ones, or none at all for
/// every ninth token.
inline void fill_key_lists(Data& keys, std::int64_t sequence, std::uint64_t seed) {
  const std::int64_t length = (*keys).shape[1];
  for (std::int64_t t = 0; t * length < keys.elements(); ++t) {
    std::int64_t found = 0;
    for (std::int64_t u = 0; u < sequence && found < length && t % 9 != 8; ++u) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto places = static_cast<std::uint64_t>(sequence);
      if ((seed >> 33) % places < static_cast<std::uint64_t>(length)) keys.set(t * length + found++, static_cast<double>(u));
    }
    if (found == 0 && t % 9 != 8) keys.set(t * length + found++, static_cast<double>(t % sequence));
    for (; found < length; ++found) keys.set(t * length + found, -1);
  }
}

}  // namespace millrace::kernels::testing
