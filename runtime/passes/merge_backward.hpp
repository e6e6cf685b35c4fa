#pragma once

#include <cstddef>
#include <vector>

#include "runtime/program/operation.hpp"
#include "runtime/program/value.hpp"

namespace millrace::runtime {

/// B from I and W: each W operation stands right after the last operation that yields one of its operands, so that gradients die early. Two
/// operations on one accumulator keep their order. Neighbours that have a rule for both (the head's) become one operation.
[[nodiscard]] std::vector<Operation> merge_backward(const std::vector<Operation>& input_gradient,
                                                    const std::vector<Operation>& weight_gradient, std::size_t values);

}  // namespace millrace::runtime
