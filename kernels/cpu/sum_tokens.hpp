#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/base/thread_team.hpp"

namespace millrace::kernels::cpu {

/// The sum of a term of every token, in order whatever the number of threads. `terms(begin, end, term)` writes the terms of tokens
/// [begin, end) to term[0], term[1], …
template <class Terms>
double sum_tokens(ThreadTeam& team, std::int64_t tokens, Terms&& terms) {
  constexpr std::int64_t at_once = 1024;  // on the stack
  std::array<double, at_once> term;
  double sum = 0;
  for (std::int64_t first = 0; first < tokens; first += at_once) {
    const std::int64_t count = std::min(at_once, tokens - first);
    team.for_ranges(count, 8, [&](std::int64_t begin, std::int64_t end) { terms(first + begin, first + end, term.data() + begin); });
    for (std::int64_t i = 0; i < count; ++i) sum += term[static_cast<std::size_t>(i)];
  }
  return sum;
}

}  // namespace millrace::kernels::cpu
