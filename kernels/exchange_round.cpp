#include "kernels/exchange_round.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void exchange_round(const ExecutionContext& context, const Tensor& counts, const Tensor& send, const Tensor& receive, const Tensor& groups,
                    const Tensor& more, const ExchangeRoundOptions& options) {
  constexpr const char* component = "kernels.exchange_round";
  const std::int64_t members = options.group;
  check_rank(component, "counts", counts, 1);
  MILLRACE_CHECK(members >= 1 && options.place >= 0 && options.place < members, ExitCode::internal, component,
                 "member {} of {}, expected one of the group", options.place, members);
  MILLRACE_CHECK(counts.shape[0] % (members * members) == 0 && counts.shape[0] > 0, ExitCode::internal, component,
                 "{} counts of {} members, expected as many for each of E experts, and E / {} experts for each", counts.shape[0], members,
                 members);
  check_operand(component, "counts", counts, counts.shape, {DType::i32});
  check_operand(component, "send", send, {members, 2}, {DType::i32});
  check_operand(component, "receive", receive, {members, 2}, {DType::i32});
  check_operand(component, "groups", groups, {counts.shape[0] / members + 1}, {DType::i32});
  check_operand(component, "more", more, {1}, {DType::i32});
  MILLRACE_CHECK(context.host_readable(), ExitCode::internal, component, "the counts are in a device's memory, expected host memory");
  for (std::int64_t i = 0; i < counts.shape[0]; ++i) {
    const std::int32_t count = counts.as<std::int32_t>()[i];
    MILLRACE_CHECK(count >= 0 && std::min<std::int64_t>(count, exchange_run_rows) <= options.room, ExitCode::internal, component,
                   "count {} is {}, expected 0 or more, and a room of {} rows for a run of {}", i, count, options.room,
                   std::min<std::int64_t>(count, exchange_run_rows));
  }
  table::exchange_round(context, counts, send, receive, groups, more, options);
}

}  // namespace millrace::kernels
