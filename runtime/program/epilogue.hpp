#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/program/value.hpp"

namespace millrace::runtime {

class OperationRule;

/// The work that an operation does in addition to its own, which replaces another operation. runtime/passes/choose_epilogues.hpp
/// chooses it among the epilogues that the rule supports.
struct Epilogue {
  /// Added to the operation's only result before that is rounded: a value of the result's type, or a bias f32 [N] to every row. It is the
  /// operation's last operand.
  enum class Add : std::uint8_t { none, addend, bias };
  Add add = Add::none;
  bool packed = false;  // its weight operand has the packed layout of products (kernels/packing.hpp)
  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

/// The epilogues that the operations of a rule support.
struct Epilogues {
  bool addend = false;
  bool bias = false;
  /// The operand that may be packed, and in which form.
  struct Weight {
    std::size_t operand = 0;
    WeightForm form = WeightForm::plain;
  };
  std::optional<Weight> packed;
  /// For an input gradient that can compute a weight gradient along with its own results: the rule of that weight gradient, and the
  /// rule that computes both from the input gradient's operands, with the same bits as the two in sequence. B uses it.
  const OperationRule* weight_gradient = nullptr;
  const OperationRule* both = nullptr;
};

}  // namespace millrace::runtime
