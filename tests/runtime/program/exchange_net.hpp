#pragma once

#include <cstdint>

#include "runtime/program/operations.hpp"

namespace millrace::runtime::testing {

inline constexpr std::int64_t exchange_experts = 4, exchange_width = 8, exchange_hidden = 5;

/// A layer of four experts, two for each of eight tokens, between an embedding and the head: one rank with all experts, or a member of a
/// group, in rounds if the group has a capacity. Weights "table", "wide" [experts, 5, 8] with "wide.bias", "back" [experts, 8, 5], "beside"
/// and "head".
[[nodiscard]] ForwardProgram exchange_net(const ExpertGroup& group, kernels::DType compute = kernels::DType::f32);

}  // namespace millrace::runtime::testing
