#pragma once

#include <cstddef>
#include <vector>

#include "runtime/program/operation.hpp"
#include "runtime/program/value.hpp"

namespace millrace::runtime {

/// Merges I and W into B: each W operation is placed directly after the last operation that computes one of its operands, so that
/// gradients have short lifetimes. Two operations on one accumulator keep their order. Adjacent operations with a rule for both
/// (the head's) become one operation.
[[nodiscard]] std::vector<Operation> merge_backward(const std::vector<Operation>& input_gradient,
                                                    const std::vector<Operation>& weight_gradient, std::size_t values);

}  // namespace millrace::runtime
