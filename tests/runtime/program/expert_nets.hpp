#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/program/operations.hpp"

/// What tests of operations on experts need in place of a router.
namespace millrace::runtime::testing {

/// `chosen` different experts for each token, a function of the token: i32 [T, chosen].
ValueId experts_of_tokens(ProgramBuilder& builder, std::int64_t chosen, std::int64_t experts, std::string_view name);

/// The first columns of x [T, D] as f32 [T, columns], with a gradient: weights of choices.
ValueId leading_columns(ProgramBuilder& builder, ValueId x, std::int64_t columns, std::string_view name);

/// Parts of nets, from [T, 8] to [T, 8], that work on rows in the order of experts, by name.
[[nodiscard]] std::vector<std::pair<std::string, std::function<ValueId(ProgramBuilder&, ValueId)>>> expert_bodies();

}  // namespace millrace::runtime::testing
