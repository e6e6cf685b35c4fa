#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"
#include "runtime/program/attributes.hpp"
#include "runtime/program/kernel_rows.hpp"
#include "runtime/program/value.hpp"

namespace millrace::runtime {

class GradientBuilder;

struct Cost {
  double flops = 0;  // multiply-adds count two
  double bytes = 0;  // read and written, each operand once
};

/// How the groups of an operation's rows (Value::rows_by) follow from its operands.
enum class RowGroups : std::uint8_t {
  as_operand,  // results have the groups of an operand with as many rows, if it has groups
  by_table,    // the operand i32 [G + 1] is the table of the rows of operand 0, of the results and, where it accumulates, of operand 1
  of_sort,     // result 1 is the table of the rows whose places are result 0
  of_places,   // the rows of result 0 lie at the places that are operand 1
  none,        // results are not in the order of operands' rows
};

/// Everything that is known about a kind of operation except the kernel's arithmetic. Each has its own file in ops/. Rules are
/// immutable and live as long as the process.
class OperationRule {
 public:
  virtual ~OperationRule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Returns the types of the results. Throws Error(internal) naming the operands' shapes if they do not fit.
  [[nodiscard]] virtual std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const = 0;
  /// Appends the operations that turn the results' gradients into the gradients of activations (I). Default: nothing flows back.
  virtual void input_gradient(GradientBuilder& builder) const;
  /// Whether gradients may flow through it. If not, its results are constants to whatever reads them.
  [[nodiscard]] virtual bool differentiable() const { return true; }
  /// Appends the operations that add into the accumulators of its parameters (W). Default: it has none.
  virtual void weight_gradient(GradientBuilder& builder) const;
  [[nodiscard]] virtual Cost cost(std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                                  const Attributes& attributes) const = 0;
  [[nodiscard]] virtual std::size_t scratch_bytes(std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                                                  const Attributes& attributes, const kernels::Processor& processor) const;
  /// The kernels that run() calls. Planning a stage fails if the device lacks one of them.
  [[nodiscard]] virtual KernelRows kernel_rows() const = 0;
  /// Calls the kernel. outputs of an accumulating operation are its accumulators.
  virtual void run(const kernels::ExecutionContext& context, std::span<const kernels::Tensor> inputs,
                   std::span<const kernels::Tensor> outputs, const Attributes& attributes, kernels::Scratch scratch) const = 0;
  /// The suffix of the name of result `i`; the first result has the operation's own name.
  [[nodiscard]] virtual std::string_view output_suffix(std::size_t i) const;
  /// The epilogues that its operations support; by default none. Which one an operation uses is in its attributes, which infer,
  /// cost and run take into account.
  [[nodiscard]] virtual Epilogues epilogues() const { return {}; }
  /// How its results' rows are grouped by experts; by default as those of its operands.
  [[nodiscard]] virtual RowGroups row_groups() const { return RowGroups::as_operand; }
  /// Whether it exists only where ranks exchange rows: recordings leave its results out, so that they can be compared with those of one
  /// rank.
  [[nodiscard]] virtual bool is_of_exchange() const { return false; }
  /// True when `outputs` are accumulators, which are read, added to and written.
  [[nodiscard]] virtual bool accumulates() const { return false; }
};

/// One line of a program.
struct Operation {
  const OperationRule* rule = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
  std::string name;  // "layers.3.mlp.gate_proj", "layers.3.mlp.gate_proj.dw"
  int layer = -1;
  bool recomputed = false;  // stands in I for a value that rematerialisation did not keep
  // Where rows are exchanged in rounds (kernels/base/exchange_round_options.hpp): the round that it and its gradients are of; −1 elsewhere.
  int round = -1;
  bool kept = true;  // of F: false if its results are recomputed just before I reads them, whatever the policy says
};

/// The rule with the operation's epilogue: "linear", "linear + bias", "rms_norm_input_gradient + addend".
[[nodiscard]] std::string kind_of(const Operation& operation);

}  // namespace millrace::runtime
