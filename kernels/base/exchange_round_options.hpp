#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "kernels/base/options.hpp"

/// Rows of experts that are exchanged in rounds, because an owner has room for fewer than it may get. P members share E experts: member o
/// owns the g = E / P experts from o·g on, and gets rows of all members for them, in the order of members, then of experts. They are cut
/// into *runs*: exchange_run_rows rows of one member for one expert from the first on, the last run of a group perhaps shorter. Each owner
/// takes its runs in order, as many in a round as it has room for. So the sums of weight gradients, which products add run by run
/// (kernels/grouped_matmul.hpp), do not depend on the rounds.
namespace millrace::kernels {

/// The largest number of rows that are never separated.
inline constexpr std::int64_t exchange_run_rows = 128;

struct ExchangeRoundOptions {
  std::int64_t group = 1;  // P: the number of members
  std::int64_t place = 0;  // of the member whose tables they are
  std::int64_t room = 0;   // rows of an owner in a round
  std::int64_t round = 0;  // from 0

  static constexpr auto members() {
    return std::tuple(member("group", &ExchangeRoundOptions::group), member("place", &ExchangeRoundOptions::place),
                      member("room", &ExchangeRoundOptions::room), member("round", &ExchangeRoundOptions::round));
  }
};

/// The rounds that suffice whatever the counts are, for an owner that gets up to `rows` rows, up to `largest` of one member for one expert:
/// all rounds but the last have room for less than a run, and two that follow each other have more rows than room. `room` is at least
/// that of a run.
[[nodiscard]] constexpr std::int64_t most_rounds(std::int64_t rows, std::int64_t largest, std::int64_t room) noexcept {
  if (rows <= room) return 1;
  const std::int64_t run = std::min(largest, exchange_run_rows);
  return std::min((rows - 1) / (room - run + 1) + 1, 2 * (rows / (room + 1)) + 1);
}

}  // namespace millrace::kernels
