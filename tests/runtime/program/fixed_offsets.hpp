#pragma once

#include <cstdint>
#include <string>

#include "runtime/program/operations.hpp"

namespace millrace::runtime::testing {

/// Offsets i32 [4] of three groups with 3, 0 and 5 rows, the eight tokens of a small net in place of what a router chooses. `tokens` i32
/// [8].
ValueId fixed_offsets(ProgramBuilder& builder, ValueId tokens, std::string_view name);
/// Two products of these groups, with 4 and 128 rows at a time, of which the first has a bias: x [8, 8] → [8, 8] by way of five features.
/// Weights "wide" and "back", stored [E, N, K] or [E, K, N], and "wide.bias".
ValueId products_of_experts(ProgramBuilder& builder, ValueId x, bool input_major);
/// x [8, …] after an exchange in a group of one: as many rows as these groups have in all, and 8 at most.
ValueId received_rows(ProgramBuilder& builder, ValueId x, const std::string& name);

}  // namespace millrace::runtime::testing
