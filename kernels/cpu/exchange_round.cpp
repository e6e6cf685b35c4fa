#include "kernels/exchange_round.hpp"

#include <algorithm>

namespace millrace::kernels::cpu {
namespace {

/// Visits the runs of an owner in order: visit(member, expert, first row of the member's rows for the expert, rows, round, row in the
/// round). Returns the number of rounds.
template <class Visit>
std::int64_t for_runs(const std::int32_t* counts, std::int64_t members, std::int64_t own, std::int64_t owner, std::int64_t room,
                      Visit&& visit) {
  std::int64_t round = 0, used = 0;
  for (std::int64_t member = 0; member < members; ++member) {
    for (std::int64_t expert = 0; expert < own; ++expert) {
      const std::int64_t count = counts[(member * members + owner) * own + expert];
      for (std::int64_t first = 0; first < count; first += exchange_run_rows) {
        const std::int64_t rows = std::min(exchange_run_rows, count - first);
        if (used + rows > room) ++round, used = 0;
        visit(member, expert, first, rows, round, used);
        used += rows;
      }
    }
  }
  return round + 1;
}

void exchange_round(const ExecutionContext& /*context*/, const Tensor& counts, const Tensor& send, const Tensor& receive,
                    const Tensor& groups, const Tensor& more, const ExchangeRoundOptions& options) {
  const std::int64_t members = options.group, own = counts.shape[0] / members / members, self = options.place;
  const auto* count = counts.as<std::int32_t>();
  auto *sent = send.as<std::int32_t>(), *received = receive.as<std::int32_t>(), *begin = groups.as<std::int32_t>();
  std::fill_n(sent, 2 * members, 0);
  std::fill_n(received, 2 * members, 0);
  std::fill_n(begin, members * own + 1, 0);
  std::int64_t needed = 0;
  const std::int32_t* rows_of_expert = count + self * members * own;  // of this member
  std::int64_t before = 0;                                            // its rows for earlier owners
  for (std::int64_t owner = 0; owner < members; ++owner) {
    std::int64_t expert_begins = before, at_expert = 0;
    const auto extend = [](std::int32_t* range, std::int64_t first, std::int64_t rows) {
      if (range[0] == range[1]) range[0] = static_cast<std::int32_t>(first);
      range[1] = static_cast<std::int32_t>(first + rows);
    };
    const std::int64_t rounds_of_owner =
        for_runs(count, members, own, owner, options.room,
                 [&](std::int64_t member, std::int64_t expert, std::int64_t first, std::int64_t rows, std::int64_t round, std::int64_t at) {
                   if (member == self) {
                     while (at_expert < expert) expert_begins += rows_of_expert[owner * own + at_expert++];
                     if (round == options.round) extend(sent + 2 * owner, expert_begins + first, rows);
                   }
                   if (owner != self || round != options.round) return;
                   extend(received + 2 * member, at, rows);
                   begin[member * own + expert + 1] += static_cast<std::int32_t>(rows);
                 });
    needed = std::max(needed, rounds_of_owner);
    for (std::int64_t expert = 0; expert < own; ++expert) before += rows_of_expert[owner * own + expert];
  }
  for (std::int64_t group = 0; group < members * own; ++group) begin[group + 1] += begin[group];
  if (options.round >= needed) {
    std::fill_n(sent, 2 * members, -1);
    std::fill_n(received, 2 * members, -1);
  }
  more.as<std::int32_t>()[0] = static_cast<std::int32_t>(needed - 1);
}

// Integers: one loop is both the reference and the fast implementation.
const InTable exchange_round_in_table[] = {
    {Backend::cpu, table::exchange_round, exchange_round},
    {Backend::reference, table::exchange_round, exchange_round},
};

}  // namespace
}  // namespace millrace::kernels::cpu
