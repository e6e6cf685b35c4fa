#pragma once

#include "kernels/base/exchange_round_options.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// The tables of one round for one member. `counts` i32 [P·E]: the rows of every member for every expert, member by member.
///   send i32 [P, 2]     the first row and the end of the member's own rows, in the order of experts, that each member gets in this round
///   receive i32 [P, 2]  where those of each member arrive, from row 0 on
///   groups i32 [P·g + 1]  where the rows of each member for each of the member's own experts begin among them
///   more i32 [1]        how many rounds the members need beside the first
/// In a round that no member needs, `send` and `receive` are −1 and `groups` is 0. The host must be able to read the counts. Throws
/// Error(internal) for operands that do not fit, negative counts, and a run that has no room.
void exchange_round(const ExecutionContext& context, const Tensor& counts, const Tensor& send, const Tensor& receive, const Tensor& groups,
                    const Tensor& more, const ExchangeRoundOptions& options);

/// The kernel that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(exchange_round)> exchange_round("exchange_round");
}  // namespace table

}  // namespace millrace::kernels
